"""Checks: several on each packet file, generated from a table, and two on the finished video. All know partitions."""

import dagster as dg

from assets.packet import step_key
from newsstudio_ditto.errors import DittoError
from newsstudio_ditto.inspection import STEP_CHECKS, StepCheck
from newsstudio_ditto.video_inspection import check_video, mouth_movement
from resources import StorageResource
from resources.partitions import AVATARS, RENDERS, avatar_of, render_of


def step_check(check: StepCheck) -> dg.AssetChecksDefinition:
    """A check of one step's result for one avatar; it blocks what comes after it unless it only warns."""
    severity = dg.AssetCheckSeverity.WARN if check.is_warning else dg.AssetCheckSeverity.ERROR

    @dg.asset_check(
        asset=step_key(check.step),
        name=check.name,
        blocking=not check.is_warning,
        partitions_def=AVATARS,
        description=check.description,
    )
    def checked(context: dg.AssetCheckExecutionContext, storage: StorageResource) -> dg.AssetCheckResult:
        finding = check.run(storage.layout, avatar_of(context.partition_key))
        return dg.AssetCheckResult(
            passed=not finding.faults,
            severity=severity,
            metadata={
                "generation": finding.generation,
                "faults": "; ".join(finding.faults) or "none",
                **finding.measured,
            },
        )

    return checked


@dg.asset_check(
    asset="talking_video",
    partitions_def=RENDERS,
    description="It opens, has as many frames as the motion has rows, the size of the background, and sound of the "
    "same length.",
)
def plays(context: dg.AssetCheckExecutionContext, storage: StorageResource) -> dg.AssetCheckResult:
    """Probe the finished file."""
    faults = check_video(storage.layout, *render_of(context.partition_key))
    return dg.AssetCheckResult(passed=not faults, metadata={"faults": "; ".join(faults) or "none"})


@dg.asset_check(
    asset="talking_video",
    partitions_def=RENDERS,
    description="The pixels of the mouth change while somebody speaks, and not more than that in silence.",
)
def lips_move(context: dg.AssetCheckExecutionContext, storage: StorageResource) -> dg.AssetCheckResult:
    """Measure the mouth in the finished file."""
    try:
        movement = mouth_movement(storage.layout, *render_of(context.partition_key))
    except DittoError as error:
        return dg.AssetCheckResult(passed=False, metadata={"faults": str(error)})
    measured = {"in_speech": movement.in_speech, "in_silence": movement.in_silence}
    return dg.AssetCheckResult(
        passed=not movement.faults(),
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "faults": "; ".join(movement.faults()) or "none",
            **{name: round(value, 3) for name, value in measured.items() if value is not None},
        },
    )


PACKET_CHECKS = [step_check(check) for check in STEP_CHECKS]
RENDER_CHECKS = [plays, lips_move]
