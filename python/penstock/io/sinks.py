"""Sinks: where results go."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import warnings
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, TextIO

import numpy as np

from penstock._core import Frame
from penstock.checks import path_text, shown, unexpected
from penstock.closing import Closing
from penstock.errors import FailedPrecondition, InvalidArgument, PenstockWarning, PermissionDenied
from penstock.io.pictures import check_picture, opencv, opencv_name, write_image
from penstock.types import Array, Path
from penstock.writing import LineFile, write_whole_file, writing


class Sink(Closing):
    """Something that takes results; ``with`` ends it."""

    @abstractmethod
    def write(self, frame: Frame) -> None:
        """Takes one frame, however it ended."""

    def close(self) -> None:  # noqa: B027
        """Everything is written."""

    def consume(self, frames: Iterable[Frame]) -> int:
        """Writes all of a stream. Returns how many."""
        count = 0
        for frame in frames:
            self.write(frame)
            count += 1
        return count


class JsonLines(Sink):
    """A line of JSON for each frame: its number, outputs as lists (what is no finite number as null), or its error.

    Where the disk is full the file ends with the last whole line, and the error says how many frames are in it.
    """

    def __init__(self, target: Path | TextIO | None = None) -> None:
        """target: a file's name, something with ``write``; None or ``"-"`` is standard output."""
        target = None if target == "-" else target
        self._lines: LineFile | None = None
        self._stream: Any = sys.stdout if target is None else target
        if isinstance(target, str | os.PathLike):
            self._name = os.fspath(target)
            self._lines = LineFile(self._name)
        elif not hasattr(self._stream, "write"):
            raise unexpected("target", "a file's name or something with 'write', such as sys.stdout", target)

    def write(self, frame: Frame) -> None:
        line: dict[str, Any] = {"frame": frame.number}
        tag = frame.tag.item() if isinstance(frame.tag, np.generic) else frame.tag
        if isinstance(tag, str | int | float):
            line["tag"] = None if isinstance(tag, float) and not math.isfinite(tag) else tag
        if frame.error is None:
            line["outputs"] = {name: _listed(name, value) for name, value in frame.items()}
        else:
            error = frame.error
            line["error"] = {"code": error.code, "message": str(error), "reason": error.reason}
            line["error"]["places"] = error.places
        text = json.dumps(line) + "\n"
        if self._lines is not None:
            _expect_open(not self._lines.closed, self._name)
            self._lines.write(text)
        else:
            self._stream.write(text)
            self._stream.flush()

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()


class Npz(Sink):
    """Outputs by name. A folder: ``000012.npz`` for each frame; a file ending in .npz: all frames as
    ``000012/scores``, written at the end, as ``penstock run --output`` does. Failed frames are left out."""

    def __init__(self, target: Path) -> None:
        self._target = path_text("target", target)
        self._archive: dict[str, Array] | None = {} if self._target.endswith(".npz") else None
        self._closed = False
        if self._archive is None:
            writing(lambda: os.makedirs(self._target, exist_ok=True), self._target)
        else:
            _expect_writable(self._target)

    def write(self, frame: Frame) -> None:
        _expect_open(not self._closed, self._target)
        if not frame.ok:
            return
        if self._archive is not None:
            self._archive.update({f"{frame.number:06}/{name}": value.copy() for name, value in frame.items()})
        else:
            file = os.path.join(self._target, f"{frame.number:06}.npz")
            _save_all(file, dict(frame.items()))

    def close(self) -> None:
        self._closed = True
        archive, self._archive = self._archive, None
        if archive is not None:
            _save_all(self._target, archive)


class ImageFolder(Sink):
    """A picture for each frame, ``000012.png``: what ``draw`` makes of it."""

    def __init__(self, folder: Path, draw: Callable[[Frame], Array], suffix: str = ".png") -> None:
        self._folder = path_text("folder", folder)
        self._draw = draw
        self._suffix = suffix
        writing(lambda: os.makedirs(self._folder, exist_ok=True), self._folder)

    def write(self, frame: Frame) -> None:
        if frame.ok:
            write_image(os.path.join(self._folder, f"{frame.number:06}{self._suffix}"), self._draw(frame))


class VideoFile(Sink):
    """A video of what ``draw`` makes of each frame."""

    def __init__(self, file: Path, draw: Callable[[Frame], Array], rate: float = 30, codec: str = "mp4v") -> None:
        self._file = path_text("file", file)
        what = f"video '{shown(self._file)}'"
        self._library = opencv(what)
        opencv_name(what, self._file)
        self._draw = draw
        self._rate = rate
        if not isinstance(codec, str) or len(codec) != 4:
            raise unexpected("codec", "four letters, such as 'mp4v' or 'MJPG'", codec)
        self._codec = self._library.VideoWriter_fourcc(*codec)
        _expect_writable(self._file)
        self._writer: Any = None
        self._size = (0, 0)

    def write(self, frame: Frame) -> None:
        if not frame.ok:
            return
        image = check_picture(f"video '{self._file}': frame {frame.number}", self._draw(frame))
        size = (image.shape[1], image.shape[0])
        if self._writer is not None and size != self._size:
            raise InvalidArgument(
                f"video '{self._file}': frame {frame.number}: expected {self._size[0]} x {self._size[1]} pixels as the "
                f"first has, found {size[0]} x {size[1]}; resize what 'draw' makes"
            )
        if self._writer is None:
            self._size = size
            self._warn_of_odd(*size)
            self._writer = self._library.VideoWriter(self._file, self._codec, self._rate, size)
            if not self._writer.isOpened():
                raise PermissionDenied(
                    f"video '{self._file}': OpenCV cannot write it; is its folder there, and does '{self._file}' end "
                    "in .mp4 or another kind that the codec goes with?"
                )
        colours = image[:, :, ::-1] if image.ndim == 3 else np.repeat(image[:, :, None], 3, axis=2)
        self._writer.write(np.ascontiguousarray(colours))

    def _warn_of_odd(self, width: int, height: int) -> None:
        if width % 2 == 0 and height % 2 == 0:
            return
        warnings.warn(
            f"video '{self._file}': OpenCV leaves out the last row and column of odd sizes: {width} x {height} pixels "
            f"become {width // 2 * 2} x {height // 2 * 2}; make them even in 'draw'",
            PenstockWarning,
            stacklevel=3,
        )

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.release()


def _listed(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_listed(name, one) for one in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind == "c":
        raise InvalidArgument(f"output '{name}': complex numbers have no form in JSON lines; io.Npz writes them")
    if value.dtype.kind in "fV":  # V: of ml_dtypes.
        value = value.astype(np.float64)
        strange = ~np.isfinite(value)
        if strange.any():
            value = value.astype(object)
            value[strange] = None
    return value.tolist()


def _save_all(file: str, arrays: Mapping[str, Array]) -> None:
    """As numpy.savez(), for which some names are its own arguments."""

    def save(out: IO[bytes]) -> None:
        with zipfile.ZipFile(out, "w") as archive:
            for name, value in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(value), allow_pickle=False)

    write_whole_file(file, save)


def _expect_open(is_open: bool, place: str) -> None:
    if not is_open:
        raise FailedPrecondition(f"'{shown(place)}': the sink is closed: write before close(), or within 'with'")


def _expect_writable(file: str) -> None:
    """Of what is written when all frames are there: told before them."""

    def look() -> None:
        place = file if os.path.exists(file) else os.path.dirname(file) or "."
        os.stat(place)
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    writing(look, file)
