"""The table of ``docs/format.md``, made from the spec so that it cannot go stale unseen."""

from newsstudio_ditto.packet.spec import PARTS

BEGIN = "<!-- begin: table made from the spec -->"
END = "<!-- end: table made from the spec -->"


def format_table() -> str:
    """Markdown table of every file and tensor of a packet."""
    rows = ["| file | tensor | dtype | shape | content |", "|---|---|---|---|---|"]
    for spec in PARTS.values():
        for tensor in spec:
            axes = str(tensor).removeprefix(tensor.dtype).strip()
            rows.append(f"| `{spec.file_name}` | `{tensor.name}` | {tensor.dtype} | {axes} | {tensor.content} |")
    return "\n".join(rows)


def refresh_table(document: str) -> str:
    """``document`` with the text between the two markers replaced by the current table.

    Raises:
        ValueError: a marker is missing.
    """
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{format_table()}\n{END}{after}"
