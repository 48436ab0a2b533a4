"""``newsstudio-ditto list``, ``inspect`` and ``verify``: what there is, where it came from, and whether it is sound."""

from pathlib import Path

import click

from newsstudio_ditto.cli_shared import json_option, storage_option
from newsstudio_ditto.errors import UsageError
from newsstudio_ditto.storage import StorageLayout
from newsstudio_ditto.terminal import format_bytes, note, show_json, show_table


@click.command("list")
@storage_option
@json_option
def list_avatars(storage: Path, as_json: bool) -> None:
    """List the avatars and the state of their packets."""
    from newsstudio_ditto.inventory import list_packets

    rows = list_packets(StorageLayout(storage))
    if as_json:
        show_json([row.to_plain() for row in rows])
    elif not rows:
        note("no avatars yet: newsstudio-ditto preprocess CLIP --avatar-id ID")
    else:
        show_table(
            ("avatar", "frames", "size", "model", "bytes", "generation", "state"),
            [
                (
                    row.avatar_id,
                    row.num_frames,
                    row.frame_size,
                    row.model,
                    format_bytes(row.num_bytes),
                    row.generation[:12],
                    row.state,
                )
                for row in rows
            ],
        )


@click.command()
@click.argument("subject")
@storage_option
@json_option
def inspect(subject: str, storage: Path, as_json: bool) -> None:
    """Describe a packet (SUBJECT is an avatar id) or where a rendered mp4 came from (SUBJECT is a file)."""
    from newsstudio_ditto.inventory import describe_packet, describe_video

    document = (
        describe_video(Path(subject)) if _is_file_name(subject) else describe_packet(StorageLayout(storage), subject)
    )
    if as_json:
        show_json(document)
        return
    rows = []
    for key, value in document.items():
        if isinstance(value, dict):
            rows += [(f"{key}.{name}", entry) for name, entry in value.items()]
        else:
            rows.append((key, value))
    show_table(("field", "value"), rows)


@click.command()
@click.argument("subject")
@click.option("--against", type=click.Path(path_type=Path), default=None, help="Compare the frames with this clip.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path),
    default=None,
    help="Write packet frame, fresh frame and their difference times eight as PNG.",
)
@click.option("--speech", type=click.Path(path_type=Path), default=None, help="What the video SUBJECT should say.")
@storage_option
@json_option
def verify(
    subject: str, against: Path | None, picture: Path | None, speech: Path | None, storage: Path, as_json: bool
) -> None:
    """Look for faults. Exit code 1 if anything is wrong.

    Of a packet (SUBJECT is an avatar id): every checksum, and whether its parts fit. Of a video (SUBJECT is a file):
    frames, timing, sound, colours, and lips that move with the sound.
    """
    layout = StorageLayout(storage)
    if _is_file_name(subject):
        if against is not None or picture is not None:
            raise UsageError(f"{subject} is a video", "give --speech with it; --against and --picture are for packets")
        raise SystemExit(_verify_video(layout, Path(subject), speech, as_json=as_json))
    if speech is not None:
        raise UsageError(f"{subject} is an avatar", "give --against with it; --speech is for videos")
    raise SystemExit(_verify_packet(layout, subject, against, picture, as_json=as_json))


def _verify_packet(
    layout: StorageLayout, avatar_id: str, against: Path | None, picture: Path | None, *, as_json: bool
) -> int:
    from newsstudio_ditto.inventory import verify_avatar

    report = verify_avatar(layout, avatar_id, against=against, picture=picture)
    if as_json:
        show_json(report.to_plain())
    else:
        for finding in report.findings:
            click.echo(str(finding))
        mend = f"damaged: newsstudio-ditto preprocess CLIP --avatar-id {avatar_id}"
        note(f"{avatar_id}: {'good' if report.ok else mend}")
    return 0 if report.ok else 1


def _verify_video(layout: StorageLayout, path: Path, speech: Path | None, *, as_json: bool) -> int:
    from newsstudio_ditto.video_inspection import verify_video

    truth = verify_video(layout, path, speech)
    if as_json:
        show_json(truth.to_plain())
    else:
        for fault in truth.faults:
            click.echo(fault)
        for warning in truth.warnings:
            note(f"Warning: {warning}")
        note(f"{path}: {'good' if truth.is_true else 'not what was asked for: render it again'}")
    return 0 if truth.is_true else 1


def _is_file_name(subject: str) -> bool:
    return Path(subject).suffix != "" or Path(subject).is_file()
