"""The one error tree. Every error says what happened and what to do about it.

DittoError
├── UsageError            an argument or option outside its documented range
├── MediaError            an anchor or speech that cannot be read, or has nothing usable in it
│   ├── UnsupportedMediaError
│   ├── EmptyAudioError
│   └── FfmpegError       FFmpeg is missing, or ended badly
│       └── SinkError     the finished video could not be written
├── FaceError
│   └── NoFaceError       no face in any frame
├── PacketError           something about a packet, or about the folder that packets lie in
│   ├── StorageError           a folder that is full, read-only or somebody else's
│   ├── PacketMissingError     no packet, or some of its six files are absent
│   ├── PacketFormatError      a file is damaged, or not what its spec says
│   ├── PacketMixedError       files of different generations
│   └── PacketModelError       the packet was made for another model bundle
├── CheckFailedError      a blocking check of the asset graph found a fault in what was made
├── StageError            a stage of the asset graph failed for a reason that none of the others names
├── BundleError           a model bundle that is absent, damaged or of the wrong shape
├── GraphInputError       a captured CUDA graph was called with other shapes
└── DeviceError           the device asked for is not there, or has too little memory
"""


class DittoError(Exception):
    """Base of all errors of this package.

    Args:
        what: what happened, in one sentence, naming the file, field or value.
        hint: what the reader can do about it; usually a command.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        """Keep both sentences."""
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        """Both fields on one line, for logs and for Dagster."""
        return f"{self.what} ({self.hint})" if self.hint else self.what


class UsageError(DittoError):
    """An argument or option outside its documented range."""


class MediaError(DittoError):
    """An anchor or a speech that cannot be read, or has nothing usable in it."""


class UnsupportedMediaError(MediaError):
    """A container, codec, pixel format or sample format that is refused on purpose."""


class EmptyAudioError(MediaError):
    """A speech without a single sample."""


class FfmpegError(MediaError):
    """FFmpeg is missing, lacks an encoder, or ended badly."""


class SinkError(FfmpegError):
    """The finished video could not be written."""


class FaceError(DittoError):
    """Something about the faces of an anchor."""


class NoFaceError(FaceError):
    """No frame of the anchor shows a face."""


class PacketError(DittoError):
    """Something about a packet on disk."""


class StorageError(PacketError):
    """A folder cannot be written or read: it is full, read-only, or belongs to somebody else."""


class PacketMissingError(PacketError):
    """There is no packet, or some of its six files are absent."""


class PacketFormatError(PacketError):
    """A packet file is damaged, or is not what its spec says."""


class PacketMixedError(PacketError):
    """The files of a packet come from different generations."""


class PacketModelError(PacketError):
    """The packet was made for another model bundle than the one loaded."""


class CheckFailedError(DittoError):
    """A blocking check of the asset graph found a fault in what a stage had made."""


class StageError(DittoError):
    """A stage of the asset graph failed for a reason that none of the other errors names."""


class BundleError(DittoError):
    """A model bundle that is absent, damaged or of the wrong shape."""


class GraphInputError(DittoError):
    """A captured CUDA graph was called with inputs of another shape, dtype or device."""


class DeviceError(DittoError):
    """The device asked for is not there, or has too little memory."""
