"""Running the sections of the benchmark, and what is said of them."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from newsstudio_ditto.bench.opening import measure_open
from newsstudio_ditto.bench.output import measure_memory, measure_pipeline, measure_sink
from newsstudio_ditto.bench.setup import Bench, BenchOptions
from newsstudio_ditto.bench.stages import measure_core, measure_motion, measure_paste
from newsstudio_ditto.bench.timing import Figure, describe_run

SECTIONS = ("memory", "open", "core", "motion", "paste", "sink", "pipeline")
"""Memory comes first: it is measured above an engine that has rendered nothing yet."""
_TIMED: dict[str, Callable[[Bench], list[Figure]]] = {
    "open": measure_open,
    "core": measure_core,
    "motion": measure_motion,
    "paste": measure_paste,
    "sink": measure_sink,
    "pipeline": measure_pipeline,
}
COLUMNS = ("section", "what", "median ms", "p95 ms", "of a", "reference ms", "times faster", "of the roof", "note")


def run_bench(
    options: BenchOptions, sections: Sequence[str], on_section: Callable[[str, dict[str, Any]], None]
) -> dict[str, Any]:
    """Measure some sections.

    Args:
        options: what to measure with.
        sections: some of :data:`SECTIONS`; they run in that order.
        on_section: called with the name of each section and the result so far, before it runs.

    Returns:
        Plain values: ``run``, ``options``, ``roof``, ``figures`` and ``memory_mb``.
    """
    height, width = options.frame
    result: dict[str, Any] = {
        "run": describe_run(options.device),
        "options": {
            "model": options.model,
            "frame": f"{width}x{height}",
            "packet_frames": options.num_frames,
            "speech_s": options.speech_s,
            "runs": options.runs,
            "preset": options.encode.preset,
        },
        "roof": {},
        "figures": [],
        "memory_mb": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        roof = bench.roof
        result["roof"] = {"matmul_tflops": roof.tflops, "copy_gb_s": roof.copy_gb_s}
        for section in sorted(sections, key=SECTIONS.index):
            on_section(section, result)
            if section == "memory":
                result["memory_mb"] = measure_memory(bench)
            else:
                result["figures"] += [figure.to_plain() for figure in _TIMED[section](bench)]
    return result


def table_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """The figures of :func:`run_bench` as rows of :data:`COLUMNS`."""
    rows: list[tuple[str, ...]] = []
    for figure in result["figures"]:
        ours, slow, share = figure["ours"], figure["reference"], figure["roof_share"]
        rows.append(
            (
                figure["section"],
                figure["name"],
                f"{ours['median_ms']:.3f}",
                f"{ours['p95_ms']:.3f}",
                figure["unit"],
                f"{slow['median_ms']:.2f}" if slow else "",
                f"{figure['ratio']:.1f}" if slow else "",
                f"{100 * share:.0f} %" if share is not None else "",
                figure["note"],
            )
        )
    rows += [("memory", name, f"{value:.1f} MB", *[""] * 6) for name, value in result["memory_mb"].items()]
    return rows


def markdown_table(rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of a table, of which the first row is the head."""
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return lines
