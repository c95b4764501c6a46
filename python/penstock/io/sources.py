"""Sources: where frames come from."""

from __future__ import annotations

import os
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any, BinaryIO, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.checks import listed, path_text, shown, sizes, unexpected, whole
from penstock.errors import DataLoss, InvalidArgument, NotFound, Unavailable
from penstock.io.pictures import expect_file, opencv, opencv_name, read_image
from penstock.threads import start_thread
from penstock.types import Array, Path

Item = TypeVar("Item")
Key = TypeVar("Key")

_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp", ".tif", ".tiff")


def images(path: Path | Iterable[Path], *, rate: float | None = None) -> Iterable[Array]:
    """Pictures as uint8 [height, width, 3]: a file, those of a folder by name but hidden ones, or the files listed."""
    files = _files(path, _PICTURES, "pictures")
    return _paced(_OneByOne(files, lambda file: map(read_image, [file])), rate)


def video(path: Path, *, rate: float | None = None) -> Iterable[Array]:
    """The pictures of a video file, as fast as they decode or ``rate`` a second."""
    file = path_text("path", path)
    what = f"video '{shown(file)}'"
    expect_file(what, file)
    capture = opencv(what).VideoCapture(opencv_name(what, file))
    if not capture.isOpened():
        raise DataLoss(f"{what}: not a video that OpenCV can read")
    return _paced(_captured(capture), rate)


def camera(index: int | Path = 0, *, width: int | None = None, height: int | None = None) -> Iterable[Array]:
    """A camera's pictures: always the newest, those that nobody was ready for are left out.

    index: the camera's number, or what OpenCV opens: a device file, an RTSP address.
    Raises Unavailable, behind the last picture, where the camera gives no more.
    """
    name = _camera_name(index)
    what = f"camera {name!r}"
    library = opencv(what)
    capture = library.VideoCapture(opencv_name(what, name) if isinstance(name, str) else name)
    if not capture.isOpened():
        raise NotFound(f"{what}: OpenCV cannot open it; is it connected, and may you read it?")
    for property_, value in ((library.CAP_PROP_FRAME_WIDTH, width), (library.CAP_PROP_FRAME_HEIGHT, height)):
        if value is not None:
            capture.set(property_, value)
    is_file = isinstance(name, str) and os.path.isfile(name)  # Which ends as it should.
    return latest(_captured(capture, None if is_file else f"{what}: gives no more pictures; is it connected?"))


def _camera_name(index: Any) -> int | str:
    """Of a number below 0 OpenCV takes any camera, and crashes where it finds none."""
    if isinstance(index, str | os.PathLike) and (name := path_text("camera", index)):
        return name
    if isinstance(index, int | np.integer) and not isinstance(index, bool) and 0 <= index < 2**31:
        return int(index)
    raise unexpected("camera", "a number from 0 on, or a device, an address or a file, such as 0", index)


def wav(
    path: Path, samples: int, hop: int | None = None, *, rate: float | None = None, sample_rate: int | None = None
) -> Iterable[Array]:
    """Blocks of a WAV file as float32 [samples], -1 to 1; several channels are averaged.

    A block is read when its turn comes, so the sound may be longer than memory holds.

    hop: from one block's start to the next's (default: ``samples``). The first block that reaches
        the end is the last, and is filled with zeros.
    rate: blocks a second; sample rate / hop is real time.
    sample_rate: the file's must be this one, such as 16000.
    """
    samples = whole("samples", samples, 512)
    hop = samples if hop is None else whole("hop", hop, 256)
    if samples < 1 or hop < 1:
        raise InvalidArgument(f"wav: expected samples and hop of 1 or more, found {samples} and {hop}")
    if sample_rate is not None:
        sample_rate = whole("sample_rate", sample_rate, 16000)
    sound = _sound(path_text("path", path), samples, hop, sample_rate)
    return _paced(_OneByOne(range(len(sound)), lambda i: map(sound.block, [i])), rate)


def arrays(path: Path | Iterable[Path], *, rate: float | None = None) -> Iterable[Array | dict[str, Array]]:
    """Frames of .npy (the only input) and .npz files (inputs by name), a folder's by name but hidden ones.

    A .npz of ``penstock run -o``, with names like ``000012/scores``, is as many frames; what stands
    there without a number is the same in all of them.
    """
    files = _files(path, (".npy", ".npz"), ".npy or .npz files")
    return _paced(_OneByOne(files, _load), rate)


def rows(array: Array | Path, *, rate: float | None = None) -> Iterable[Array]:
    """Each entry of the first dimension as a frame of its own, [1, ...]: views, no copies."""
    whole: Array = array if isinstance(array, np.ndarray) else _load_npy(path_text("array", array))
    if whole.ndim == 0:
        raise InvalidArgument("rows: expected an array of at least one dimension, found a scalar")
    return _paced((whole[i : i + 1] for i in range(len(whole))), rate)


def raw(
    shape: Sequence[int], dtype: npt.DTypeLike = np.uint8, file: BinaryIO | None = None, *, rate: float | None = None
) -> Iterable[Array]:
    """Frames as plain bytes one after the other, from standard input unless ``file`` is given.

    ``ffmpeg -i clip.mp4 -f rawvideo -pix_fmt rgb24 - | python app.py`` with ``raw((720, 1280, 3))``.
    Give ``file=sys.stdin.buffer`` where ``sys.stdin`` was read from before: what that holds back is not seen else.
    """
    source = Live(_raw(sizes("shape", shape), _dtype(dtype), _standard_input() if file is None else file.read))
    return source if rate is None else pace(source, rate)


class _OneByOne(Generic[Key, Item]):
    """The items of each key, a file's or a block's. One that fails is raised in its turn; the next ``next()`` goes on
    behind it, which a generator could not."""

    goes_on = True

    def __init__(self, keys: Iterable[Key], open_: Callable[[Key], Iterator[Item]]) -> None:
        self._keys = iter(keys)
        self._open = open_
        self._opened: Iterator[Item] = iter(())

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        while True:
            for item in self._opened:
                return item
            self._opened = self._open(next(self._keys))


class Live(Generic[Item]):
    """A source whose next item takes its time: a stream takes from it in a thread of its own."""

    live = True

    def __init__(self, source: Iterable[Item]) -> None:
        self._source = source

    def __iter__(self) -> Iterator[Item]:
        return iter(self._source)


class pace(Live[Item]):  # A function to its users.
    """Gives ``rate`` items of the source a second at most."""

    def __init__(self, source: Iterable[Item], rate: float) -> None:
        if not isinstance(rate, int | float) or not rate > 0:
            raise unexpected("rate", "more than 0 items a second, such as 30", rate)
        super().__init__(source)
        self._period = 1 / rate

    def __iter__(self) -> Iterator[Item]:
        return _Paced(iter(self._source), self._period)


class _Paced(Generic[Item]):
    """Goes on behind an error where its source does."""

    def __init__(self, source: Iterator[Item], period: float) -> None:
        self.goes_on = bool(getattr(source, "goes_on", False))
        self._source = source
        self._period = period
        self._due = time.monotonic()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        try:
            item = next(self._source)
        except StopIteration:
            raise
        except Exception:
            self._wait()
            raise
        self._wait()
        return item

    def _wait(self) -> None:
        now = time.monotonic()
        if now < self._due:
            time.sleep(self._due - now)
        self._due = max(self._due, now - self._period) + self._period  # Who was late does not hurry after it.


class latest(Live[Item]):
    """The newest item of the source at any time: a thread takes them, older ones are left out."""

    def __init__(self, source: Iterable[Item]) -> None:
        super().__init__(source)
        self.left_out = 0
        """Items that were replaced before anybody took them."""

    def __iter__(self) -> Iterator[Item]:
        newest: list[Item] = []
        ended: list[BaseException | None] = []
        changed = threading.Condition()
        stopped = threading.Event()

        def take() -> None:
            failure: BaseException | None = None
            source = iter(self._source)
            try:
                for item in source:
                    if stopped.is_set():
                        break
                    with changed:
                        self.left_out += len(newest)
                        newest[:] = [item]
                        changed.notify()
            except BaseException as error:  # A thread's SystemExit ends nothing else.
                failure = error
            with changed:
                ended.append(failure)
                changed.notify()

        start_thread("source", take)
        try:
            while True:
                with changed:
                    while not newest and not ended:
                        changed.wait()
                    if not newest:
                        break
                    item = newest.pop()
                yield item
        finally:
            stopped.set()
        if ended[0] is not None:
            raise ended[0]


def _paced(source: Iterable[Item], rate: float | None) -> Iterable[Item]:
    return source if rate is None else pace(source, rate)


def _files(path: Path | Iterable[Path], endings: tuple[str, ...], what: str) -> list[str]:
    if not isinstance(path, str | os.PathLike):
        return [path_text("path", one) for one in listed("path", path)]
    place = FilePath(path)
    if not place.is_dir():
        if not place.exists():
            raise NotFound(f"'{shown(str(place))}': no such file or folder")
        return [str(place)]
    with os.scandir(place) as entries:
        named = (entry for entry in entries if entry.name.lower().endswith(endings))
        files = sorted(entry.path for entry in named if not entry.name.startswith("."))
    if not files:
        raise NotFound(f"folder '{shown(str(place))}': expected {what} ({', '.join(endings)}), found none")
    return files


def _captured(capture: Any, at_end: str | None = None) -> Iterator[Array]:
    """The pictures until there are no more, which is an error where `at_end` has words for it."""
    try:
        while True:
            more, image = capture.read()
            if not more and at_end is not None:
                raise Unavailable(at_end)
            if not more:
                return
            yield np.ascontiguousarray(image[:, :, ::-1])
    finally:
        capture.release()


def _sound(file: str, samples: int, hop: int, sample_rate: int | None) -> _core.Sound:
    sound = _core.open_sound(file, samples, hop)
    if sample_rate not in (None, sound.rate):
        raise InvalidArgument(
            f"sound '{shown(file)}': expected {sample_rate} samples a second, found {sound.rate}; "
            f"convert it, such as by 'ffmpeg -i {shown(file)} -ar {sample_rate} converted.wav'"
        )
    return sound


def _load_npy(file: str) -> Array:
    what = f"'{shown(file)}'"
    try:
        loaded: Array = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise NotFound(f"{what}: no such file") from None
    except OSError as error:
        raise DataLoss(f"{what}: cannot be read: {error.strerror}") from None
    except (ValueError, EOFError) as error:
        with open(file, "rb") as given:
            if not given.read(6).startswith(b"\x93NUMPY"):  # numpy would have it read as a pickle, unsafely.
                raise DataLoss(f"{what}: does not begin as a .npy file; save the array by numpy.save()") from None
        raise DataLoss(f"{what}: expected a .npy file, found: {error}") from error
    return loaded


def _load(file: str) -> Iterator[Array | dict[str, Array]]:
    if not file.lower().endswith(".npz"):
        yield _load_npy(file)
        return
    what = f"'{shown(file)}'"
    try:
        with np.load(file, allow_pickle=False) as archive:
            named = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise NotFound(f"{what}: no such file") from None
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataLoss(f"{what}: expected a .npz file, found: {error}") from error
    frames: dict[int, dict[str, Array]] = {}
    beside: dict[str, Array] = {}
    for name, value in named.items():
        frame, slash, tensor = name.partition("/")
        numbered = bool(slash) and frame.isdecimal()
        row = frames.setdefault(int(frame), {}) if numbered else beside
        if row.setdefault(tensor if numbered else name, value) is not value:
            raise InvalidArgument(f"{what}: array '{shown(name)}': that frame has the input already")
    for name in beside:
        if any(name in row for row in frames.values()):
            raise InvalidArgument(
                f"{what}: array '{shown(name)}': frames have that input already, as '<frame>/{shown(name)}'; "
                "leave one of them out"
            )
    yield from ({**frames[frame], **beside} for frame in sorted(frames)) if frames else [beside]


def _dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        return np.dtype(dtype)
    except TypeError as error:
        raise unexpected("dtype", "a type of numpy's, such as 'uint8'", dtype) from error


def _standard_input() -> Callable[[int], bytes]:
    """Not by its buffer, whose lock a thread that waits for input would hold at the end of the process."""
    try:
        descriptor = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # None, or no file: a notebook's.
        return sys.stdin.buffer.read
    return lambda size: os.read(descriptor, size)


def _raw(shape: tuple[int, ...], dtype: np.dtype[Any], read: Callable[[int], bytes]) -> Iterator[Array]:
    size = int(np.prod(shape)) * dtype.itemsize
    if size < 1:
        raise InvalidArgument(f"raw: expected a shape of at least one element, found {shape}")
    while True:
        frame = bytearray()
        while len(frame) < size:
            part = read(size - len(frame))
            if not part:
                break
            frame += part
        if not frame:
            return
        if len(frame) < size:
            raise DataLoss(f"raw frames: expected {size} bytes for each, found {len(frame)} in the last")
        yield np.frombuffer(frame, dtype).reshape(shape)
