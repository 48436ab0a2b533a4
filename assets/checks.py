"""Checks: several on each packet file, generated from a table, and two on the finished video. All know partitions."""

import dagster as dg

from assets.packet import step_key
from newsstudio_ditto.inspection import STEP_CHECKS, StepCheck
from newsstudio_ditto.output_truth import VideoTruth
from newsstudio_ditto.video_inspection import check_render
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


def truth_result(truth: VideoTruth) -> dg.AssetCheckResult:
    """What was found; faults fail the check and the run, doubts only warn."""
    return dg.AssetCheckResult(
        passed=truth.is_true and not truth.warnings,
        severity=dg.AssetCheckSeverity.WARN if truth.is_true else dg.AssetCheckSeverity.ERROR,
        metadata={"faults": "; ".join((*truth.faults, *truth.warnings)) or "none", **truth.measured},
    )


@dg.asset_check(
    asset="talking_video",
    partitions_def=RENDERS,
    description="It opens, has a frame for each started 640 samples at 25 a second, the size and the colours of the "
    "packet, and the whole speech as its sound.",
    blocking=True,
)
def plays(context: dg.AssetCheckExecutionContext, storage: StorageResource) -> dg.AssetCheckResult:
    """Look at the finished file."""
    return truth_result(check_render(storage.layout, *render_of(context.partition_key)))


@dg.asset_check(
    asset="talking_video",
    partitions_def=RENDERS,
    description="The lips move while somebody speaks, with the sound and without lag, and rest in silence.",
    blocking=True,
)
def lips_move(context: dg.AssetCheckExecutionContext, storage: StorageResource) -> dg.AssetCheckResult:
    """Look for the lips in the finished file."""
    return truth_result(check_render(storage.layout, *render_of(context.partition_key), lips="sampled"))


PACKET_CHECKS = [step_check(check) for check in STEP_CHECKS]
RENDER_CHECKS = [plays, lips_move]
