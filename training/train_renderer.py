"""Train appearance, warp, decoder and motion extractor.

``python -m training.train_renderer --run FOLDER --heads FOLDER ...``.

Heads come from ``training.head_worker`` processes through a folder. Stopped or cut off, the same command goes on from
the last checkpoint. ``--seconds`` is the length of the whole schedule, over all calls. The weights that drew held-out
people and frames most exactly are kept in ``RUN/best``.
"""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from training.command_line import read_options
from training.pool import PictureSet, fill_from_folder, load_packed
from training.renderer_training import Pictures, RendererOptions, RendererTraining

log = logging.getLogger(__name__)

LOG_EVERY_S, SAVE_EVERY_S, SCORE_EVERY_S, LOOK_EVERY_S = 15.0, 60.0, 150.0, 5.0


def load_pictures(options: RendererOptions) -> Pictures:
    """Anchors first, then heads as the workers deliver them; leaves the marker ``pool_ready`` in the run folder."""
    device = torch.device(options.device)
    anchor = anchor_held = extra = None
    if options.anchor is not None:
        anchor, anchor_held = load_packed(options.anchor, device)
    if options.extra is not None:
        extra, _ = load_packed(options.extra, device)
    heads = PictureSet.empty(options.people, options.frames, options.size, device)
    held_out = PictureSet.empty(options.held_out, options.frames, options.size, device)
    filled = fill_from_folder(
        options.heads, heads, held_out, patience_s=options.patience, min_people=options.min_people
    )
    (options.heads / "stop").touch()
    (options.run / "pool_ready").touch()
    log.info("people %d, anchor frames %d", len(filled.images), 0 if anchor is None else anchor.images.shape[1])
    return Pictures(filled, held_out, anchor, anchor_held, extra)


class FreshAnchor:
    """Looks now and then for better pictures of the demo's person, and reads them while training goes on.

    Args:
        path: archive that appears or is replaced while training runs; None for none.
        device: where the pictures go.
        beside: reads them.
    """

    def __init__(self, path: Path | None, device: torch.device, beside: ThreadPoolExecutor) -> None:
        self._path, self._device, self._beside = path, device, beside
        self._seen = self._looked = 0.0
        self._waiting: Future[tuple[PictureSet, PictureSet]] | None = None

    def look(self, pictures: Pictures) -> Pictures:
        """The pictures, with the archive in place of the anchor's if there is a new one."""
        now = time.monotonic()
        if self._path is None or now - self._looked < LOOK_EVERY_S:
            return pictures
        self._looked = now
        if self._waiting is not None and self._waiting.done():
            anchor, held = self._waiting.result()
            self._waiting = None
            log.info("%d fresh anchor frames", anchor.images.shape[1] - 1)
            return replace(pictures, anchor=anchor, anchor_held=held, extra=None, is_fresh=True)
        changed = self._path.stat().st_mtime if self._path.exists() else 0.0
        if changed > self._seen and self._waiting is None:
            self._seen = changed
            self._waiting = self._beside.submit(load_packed, self._path, self._device)
        return pictures


def run_training(
    training: RendererTraining, pictures: Pictures, *, fresh: FreshAnchor | None = None, max_steps: int | None = None
) -> None:
    """Train until the schedule is over, logging, scoring and saving on the way."""
    began = logged = saved = scored = time.monotonic()
    before_s, first_step = training.elapsed_s, training.step
    sums: dict[str, list[Tensor]] = {}
    while training.elapsed_s < training.options.seconds and (
        max_steps is None or training.step - first_step < max_steps
    ):
        pictures = fresh.look(pictures) if fresh is not None else pictures
        for name, value in training.train_step(pictures).items():
            sums.setdefault(name, []).append(value.detach())
        now = time.monotonic()
        training.elapsed_s = before_s + now - began
        if now - logged > LOG_EVERY_S:
            rate = (training.step - first_step) / (now - began)
            means = {name: round(float(torch.stack(values).float().mean()), 4) for name, values in sums.items()}
            log.info("step %d at %.0f s, %.2f steps/s, %s", training.step, training.elapsed_s, rate, means)
            training.history.append({"step": training.step, "elapsed_s": training.elapsed_s, **means})
            logged, sums = now, {}
        if now - scored > SCORE_EVERY_S:
            _score(training, pictures)
            scored = time.monotonic()
        if now - saved > SAVE_EVERY_S:
            training.save()
            saved = time.monotonic()
    _score(training, pictures)
    training.save()
    (training.options.run / "renderer_done").touch()


def _score(training: RendererTraining, pictures: Pictures) -> None:
    searching = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = (
        False  # shapes that occur rarely are not worth a search for the fastest convolution
    )
    scores = {name: round(value, 4) for name, value in training.score(pictures).items()}
    torch.backends.cudnn.benchmark = searching
    log.info("scores at step %d: %s", training.step, scores)
    if training.export_if_best(scores):
        log.info("the best so far")
    training.history.append({"step": training.step, "elapsed_s": training.elapsed_s, **scores})


def main() -> None:
    """Command line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    options = read_options(RendererOptions, __doc__)
    options.run.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = options.device.startswith("cuda")
    training = RendererTraining(options)
    if training.resume():
        log.info("resumed at step %d, %.0f s", training.step, training.elapsed_s)
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(load_pictures, options)
        if options.compiled:
            training.warm_up()
            log.info("compiled")
        pictures = waiting.result()
        if options.until:
            training.set_length(training.elapsed_s + options.until - time.time())
        run_training(training, pictures, fresh=FreshAnchor(options.fresh_anchor, training.device, beside))


if __name__ == "__main__":
    main()
