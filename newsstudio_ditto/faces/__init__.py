"""Finding faces and following one of them: BlazeFace detection and 478 landmarks on onnxruntime."""

from newsstudio_ditto.faces.finder import FaceFinder
from newsstudio_ditto.faces.observation import NUM_LANDMARKS, FaceObservation
from newsstudio_ditto.faces.quality import FaceQuality, judge_quality, measure_quality
from newsstudio_ditto.faces.tracker import FaceTracker

__all__ = [
    "NUM_LANDMARKS",
    "FaceFinder",
    "FaceObservation",
    "FaceQuality",
    "FaceTracker",
    "judge_quality",
    "measure_quality",
]
