"""Pictures: arrays of uint8 in the form [height, width, 3], red first."""

from __future__ import annotations

import importlib
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.checks import path_text, row, shown, unexpected
from penstock.errors import DataLoss, InvalidArgument, NotFound, PenstockWarning, PermissionDenied, Unavailable
from penstock.types import Array, Path
from penstock.writing import write_whole_file

if TYPE_CHECKING:
    from PIL.Image import Image

    from penstock.pipeline import TensorInfo


def opencv(what: str) -> Any:
    """The module cv2. Raises Unavailable with what to install."""
    try:
        return importlib.import_module("cv2")
    except ImportError as error:
        raise Unavailable(f"{what} needs OpenCV, which is not here; pip install 'penstock[video]'") from error


def expect_file(what: str, file: str, about_folder: str = "") -> None:
    """Raises InvalidArgument where it is a folder, NotFound where it is not there."""
    if os.path.isdir(file):
        raise InvalidArgument(f"{what}: expected a file, found a folder{about_folder}")
    if not os.path.isfile(file):
        raise NotFound(f"{what}: no such file")


def opencv_name(what: str, file: str) -> str:
    """The name of a file that OpenCV opens itself, which crashes where it is not UTF-8."""
    if shown(file) != file:
        raise InvalidArgument(f"{what}: expected a name in UTF-8, as OpenCV opens no other; rename it")
    return file


def _library(what: str) -> tuple[str, Any]:
    for name in ("cv2", "PIL.Image"):
        try:
            return name, importlib.import_module(name)
        except ImportError:
            continue
    raise Unavailable(f"{what} needs OpenCV or Pillow, and neither is here; pip install 'penstock[images]'")


def read_image(path: Path) -> Array:
    """A picture file as uint8 [height, width, 3], red first; turned as its EXIF orientation says.

    Numbers of more bits are scaled to 0..255.
    """
    file = path_text("path", path)
    what = f"picture '{shown(file)}'"
    expect_file(what, file, "; io.images() reads the pictures in it")
    name, library = _library(what)
    try:
        with open(file, "rb") as opened:
            data = opened.read()
    except OSError as error:
        raise DataLoss(f"{what}: cannot be read: {error.strerror}") from error
    netpbm = _NETPBM.match(data)
    if netpbm is not None:
        return _read_netpbm(netpbm, data, what)
    if name == "cv2":
        return _read_by_opencv(library, data, what)
    try:
        with library.open(file) as picture:
            seen = importlib.import_module("PIL.ImageOps").exif_transpose(picture)
            if seen.mode.startswith("I;16"):  # Which Pillow would cut off at 255.
                return np.repeat((np.asarray(seen) >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
            return np.array(seen.convert("RGB"))
    except (OSError, ValueError, SyntaxError, library.DecompressionBombError) as error:
        raise DataLoss(f"{what}: not a picture that Pillow can read: {error}") from error


_PART = rb"(?:\s|#[^\r\n]*[\r\n])+(\d{1,8})"
_NETPBM = re.compile(rb"P([2356])" + 3 * _PART + rb"\s")
"""The header of a PGM or PPM file: its kind, width, height, and largest number."""


def _words_of(text: bytes) -> list[bytes]:
    return re.sub(rb"#[^\r\n]*", b"", text).split()


def _read_netpbm(header: re.Match[bytes], data: bytes, what: str) -> Array:
    """Scaled to bytes: the libraries take the low bytes of longer numbers, or leave shorter ones as they are."""
    kind, width, height, most = map(int, header.groups())
    colours = 3 if kind in (3, 6) else 1
    if not 0 < most < 65536 or width * height == 0:
        raise DataLoss(f"{what}: its header is damaged")
    try:
        if kind < 4:
            numbers = np.array(_words_of(data[header.end() :])[: width * height * colours], np.uint32)
        else:
            numbers = np.frombuffer(data, ">u2" if most > 255 else "u1", width * height * colours, header.end())
        numbers = numbers.reshape(height, width, colours)
    except ValueError:
        raise DataLoss(f"{what}: it ends too early, or is damaged; save it again") from None
    scaled = (np.minimum(numbers.astype(np.uint32), most) * 255 + most // 2) // most
    return np.repeat(scaled.astype(np.uint8), 3 // colours, axis=2)


def _read_by_opencv(library: Any, data: bytes, what: str) -> Array:
    """Of its bytes: OpenCV does not open files of all names."""
    image = library.imdecode(np.frombuffer(data, np.uint8), library.IMREAD_COLOR) if data else None
    if image is None:
        raise DataLoss(f"{what}: not a picture that OpenCV can read")
    return np.ascontiguousarray(image[:, :, ::-1])


def check_picture(what: str, image: object) -> Array:
    """Raises InvalidArgument where it is none: uint8 [height, width, 3] or [height, width]."""
    if not isinstance(image, np.ndarray):
        raise unexpected(what, "uint8[height, width, 3]", image)
    colours = image.shape[2] if image.ndim == 3 else 3
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or colours != 3 or image.size == 0:
        raise InvalidArgument(f"{what}: expected uint8[height, width, 3], found {image.dtype}{list(image.shape)}")
    return image


def write_image(path: Path, image: Array) -> None:
    """Writes uint8 [height, width, 3] (red first) or [height, width]; the name's ending says the kind."""
    file = path_text("path", path)
    what = f"picture '{shown(file)}'"
    check_picture(what, image)
    name, library = _library(what)
    kind = os.path.splitext(file)[1].lower()
    if name == "cv2":
        known = kind.isascii() and library.haveImageWriter(f"picture{kind}")
    else:
        known = kind in library.registered_extensions()
    if not known:
        raise InvalidArgument(f"{what}: no kind of picture ends in '{shown(kind)}'; try .png or .jpg")
    made = BytesIO()  # OpenCV does not tell of a full disk.
    made.name = file  # By which Pillow chooses among forms of one kind.
    refused = (library.error,) if name == "cv2" else ()
    try:
        if name == "cv2":
            able, data = library.imencode(kind, image[:, :, ::-1] if image.ndim == 3 else image)
            if not able:
                raise OSError(f"OpenCV makes no {kind} of it")
            made.write(data)
        else:
            library.fromarray(np.ascontiguousarray(image)).save(made, library.registered_extensions()[kind])
    except (OSError, ValueError, KeyError, *refused) as error:
        raise PermissionDenied(f"{what}: cannot be written: {error}") from error
    write_whole_file(file, lambda out: out.write(made.getbuffer()), what="picture ")


def resize(image: Array, height: int, width: int) -> Array:
    """To height x width, bilinear, without regard to the proportions.

    OpenCV, which is taken where it is installed, blends the four nearest pixels; Pillow averages all that a pixel
    covers where the picture becomes smaller.
    """
    _check_picture("resize", image)
    if not all(isinstance(size, int | np.integer) and size >= 1 for size in (height, width)):
        raise InvalidArgument(f"resize: expected height and width in pixels, 1 or more, found {height!r} and {width!r}")
    if image.shape[:2] == (height, width):
        return image
    if image.dtype != np.uint8:  # No library takes all other numbers.
        return _resize_numbers(image, height, width)
    name, library = _library("resizing")
    if name == "cv2":
        return np.asarray(library.resize(image, (width, height), interpolation=library.INTER_LINEAR))
    picture = library.fromarray(np.ascontiguousarray(image))
    return np.array(picture.resize((width, height), library.BILINEAR))


def _resize_numbers(image: Array, height: int, width: int) -> Array:
    name, library = _library("resizing")
    numbers = np.ascontiguousarray(image, np.float32)
    if name == "cv2":
        resized = library.resize(numbers, (width, height), interpolation=library.INTER_LINEAR)
    else:
        planes = np.atleast_3d(numbers).transpose(2, 0, 1)
        sizes = (width, height), library.BILINEAR
        resized = np.stack([np.asarray(library.fromarray(plane.copy()).resize(*sizes)) for plane in planes], axis=2)
    resized = np.asarray(resized).reshape(height, width, *image.shape[2:])
    return (resized if image.dtype.kind == "f" else resized.round()).astype(image.dtype)


def _check_picture(what: str, image: object) -> None:
    if not isinstance(image, np.ndarray):
        raise InvalidArgument(
            f"{what}: expected a picture, a numpy array [height, width, 3], found {type(image).__name__}"
        )
    if image.ndim not in (2, 3) or image.size == 0 or image.dtype.kind not in "uif":
        raise InvalidArgument(
            f"{what}: expected a picture, numbers [height, width, 3], found {image.dtype}{list(image.shape)}"
        )


def crop(image: Array, box: Sequence[float]) -> Array:
    """What is in the box (left, top, right, bottom in pixels), black beyond the picture; never empty."""
    _check_picture("crop", image)
    left, top, right, bottom = row("crop", box, 4, "a box (left, top, right, bottom)")
    part = np.zeros((max(bottom - top, 1), max(right - left, 1), *image.shape[2:]), image.dtype)
    seen = image[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    y, x = max(-top, 0), max(-left, 0)
    part[y : y + seen.shape[0], x : x + seen.shape[1]] = seen
    return part


def prepare(
    image: Array | Image,
    like: TensorInfo,
    *,
    scale: float | None = None,
    mean: float | Sequence[float] = 0.0,
    std: float | Sequence[float] = 1.0,
) -> Array:
    """A picture as the input ``like`` takes it: resized, in its layout and dtype.

    The layout is what the input's shape says: a dimension of 1 or 3 second is channels first, last it
    is channels last. The picture is numbers [height, width, 3] or [height, width], or one of Pillow's; of
    [height, width, 4] the last, as a rule its opacity, is left out. Floats become
    (image * scale - mean) / std; scale is 1/255 by default, and a warning tells where the picture's
    numbers are from 0 to 1 already. Integers are the picture's numbers as they are. An open height or
    width takes the picture's own.

    Raises InvalidArgument where the input is of integers and scale, mean or std are given, where its
    type does not hold the picture's numbers, or where they are over 255 and no scale is given.
    """
    channels_first, count, height, width = _layout_of(like)
    pixels = _pixels(image)
    pixels = _in_colours(pixels)
    pixels = resize(pixels, height or pixels.shape[0], width or pixels.shape[1])
    if count == 1:
        pixels = (pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)).round()[:, :, None]
    if np.issubdtype(np.dtype(like.dtype), np.floating):
        factor = _usual_scale(pixels) if scale is None else scale
        values = pixels.astype(np.float32) * np.float32(factor)
        pixels = (values - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)
    else:
        plain = scale is None and not np.any(np.asarray(mean)) and bool(np.all(np.asarray(std) == 1))
        _check_integers(like, pixels, plain)
    if channels_first:
        pixels = pixels.transpose(2, 0, 1)
    lead = [1] * (len(like.shape or ()) - 3)
    return np.ascontiguousarray(pixels.reshape(*lead, *pixels.shape), dtype=like.dtype)


def _in_colours(pixels: Array) -> Array:
    """Three channels: of grey as many alike, without opacity."""
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    channels = pixels.shape[2]
    if channels not in (1, 3, 4):
        first = pixels.shape[0] in (1, 3, 4)
        raise InvalidArgument(
            f"prepare: expected a picture [height, width, channels] of 1, 3 or 4 channels, found {list(pixels.shape)}"
            + ("; .transpose(1, 2, 0) puts the channels last" if first else "")
        )
    return np.repeat(pixels, 3, axis=2) if channels == 1 else pixels[:, :, :3]


def _usual_scale(pixels: Array) -> float:
    """Of pictures of bytes. Others are often scaled already, or have 16 bits."""
    if pixels.dtype != np.uint8:
        most = pixels.max()
        if most > 255:
            raise InvalidArgument(
                f"prepare: the picture has numbers up to {most}, and the usual scale, 1/255, is for those up to 255; "
                "give scale=1/65535 for a picture of 16 bits"
            )
        if pixels.dtype.kind == "f" and 0 < most <= 1:
            warnings.warn(
                f"prepare: the picture has numbers up to {most:.3g} and is divided by 255 once more; give scale=1 "
                "where they are from 0 to 1",
                PenstockWarning,
                stacklevel=3,
            )
    return 1 / 255


def _check_integers(like: TensorInfo, pixels: Array, plain: bool) -> None:
    if not plain:
        raise InvalidArgument(
            f"prepare: input '{like.name}' is {like.dtype}, which takes the picture's numbers as they are; "
            "leave out scale, mean and std, and compute them before"
        )
    if np.dtype(like.dtype).kind not in "iu":
        return
    range_ = np.iinfo(like.dtype)
    least, most = pixels.min(), pixels.max()
    if not (least >= range_.min and most <= range_.max):
        raise InvalidArgument(
            f"prepare: input '{like.name}' is {like.dtype}, {range_.min} to {range_.max}, but the picture has "
            f"{least} to {most}; bring them into this range before, as by image.astype('int16') - 128"
        )


def _pixels(image: Any) -> Array:
    """The numbers of a picture, which may be one of Pillow's."""
    pixels = np.asarray(image.convert("RGB")) if hasattr(image, "getbands") else image
    _check_picture("prepare", pixels)
    return pixels


def _layout_of(like: TensorInfo) -> tuple[bool, int, int | None, int | None]:
    """Whether channels come first, how many there are, height and width."""
    if not all(hasattr(like, part) for part in ("name", "shape", "dtype")):
        raise unexpected("like", "an input of a pipeline, such as pipeline.get_inputs()[0]", like)
    shape = like.shape or []
    picture = shape[-3:]
    sizes = [dim if isinstance(dim, int) else None for dim in picture]
    if len(shape) in (3, 4) and sizes[0] in (1, 3):
        return True, sizes[0], sizes[1], sizes[2]
    if len(shape) in (3, 4) and sizes[2] in (1, 3):
        return False, sizes[2], sizes[0], sizes[1]
    raise InvalidArgument(
        f"input '{like.name}': expected the shape of one picture, [1, 3, H, W] or [1, H, W, 3], found {like.shape}"
    )


def draw_points(
    image: Array, points: Iterable[Sequence[float]], colour: Sequence[int] = (0, 255, 0), size: int = 2
) -> Array:
    """A copy of the picture with squares drawn; a point is x, y in pixels."""
    _check_picture("draw_points", image)
    drawn = image.copy()
    for point in points:
        x, y = (place - size // 2 for place in row("draw_points", point, 2, "a point (x, y)", more=True))
        drawn[max(y, 0) : max(y + size, 0), max(x, 0) : max(x + size, 0)] = colour
    return drawn


def draw_boxes(
    image: Array, boxes: Iterable[Sequence[float]], colour: Sequence[int] = (0, 255, 0), width: int = 2
) -> Array:
    """A copy of the picture with frames drawn; a box is left, top, right, bottom in pixels."""
    _check_picture("draw_boxes", image)
    drawn = image.copy()
    rows, columns = drawn.shape[:2]
    for box in boxes:
        edges = row("draw_boxes", box, 4, "a box (left, top, right, bottom)", more=True)
        left, right = (min(max(x, 0), columns) for x in edges[0::2])
        top, bottom = (min(max(y, 0), rows) for y in edges[1::2])
        if left >= right or top >= bottom:
            continue
        part = drawn[top:bottom, left:right]
        part[:width] = part[-width:] = colour
        part[:, :width] = part[:, -width:] = colour
    return drawn
