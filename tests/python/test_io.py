"""Sources and sinks."""

import asyncio
import contextlib
import errno
import importlib.util
import io as streams
import json
import os
import re
import resource
import subprocess
import sys
import time
import types
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from built_program import find_program
from line import expected, frame
from onnx import TensorProto, helper

import penstock
from penstock import io

RED = np.zeros((6, 8, 3), np.uint8)
RED[..., 0] = 200


NEEDS_OPENCV = pytest.mark.skipif(
    not importlib.util.find_spec("cv2"), reason="OpenCV is not here; pip install opencv-python-headless"
)
LIBRARIES = [pytest.param("PIL.Image", id="Pillow"), pytest.param("cv2", id="OpenCV", marks=NEEDS_OPENCV)]


@pytest.fixture(params=LIBRARIES)
def pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each library that reads pictures in turn."""
    for library in ("cv2", "PIL.Image"):
        if library != request.param:
            monkeypatch.setitem(sys.modules, library, None)


def test_pictures_are_read_from_files_and_folders(tmp_path: Path, pictures: None) -> None:
    for name in ("b.png", "a.png"):
        io.write_image(tmp_path / name, RED if name == "a.png" else 255 - RED)
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "._a.png").write_text("a system's notes of a.png")
    first, second = io.images(tmp_path)
    np.testing.assert_array_equal(first, RED)
    np.testing.assert_array_equal(second, 255 - RED)
    assert len(list(io.images([tmp_path / "a.png"] * 3))) == 3
    with pytest.raises(FileNotFoundError, match="expected pictures"):
        list(io.images(tmp_path_without_pictures(tmp_path)))
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        list(io.images(tmp_path / "nothing"))
    (tmp_path / "broken.png").write_bytes(b"not a picture")
    with pytest.raises(penstock.DataLoss, match="broken.png"):
        io.read_image(tmp_path / "broken.png")
    with pytest.raises(penstock.InvalidArgument, match=r"no kind of picture ends in '.text'; try .png or .jpg"):
        io.write_image(tmp_path / "a.text", RED)
    with pytest.raises(FileNotFoundError, match=r"a.png': cannot be written: No such file or directory; make"):
        io.write_image(tmp_path / "nowhere/a.png", RED)
    with pytest.raises(penstock.NotFound, match=r"a.png': cannot be written: Not a directory"):
        io.write_image(tmp_path / "a.png" / "a.png", RED)


def one_of_three_cut_off(folder: Path) -> Path:
    for name in ("0.npy", "1.npy", "2.npy"):
        np.save(folder / name, frame(float(name[0])))
    (folder / "1.npy").write_bytes((folder / "1.npy").read_bytes()[:-5])
    return folder


def left_and_failed(source: Iterator[object]) -> tuple[int, int]:
    left = failed = 0
    while True:
        try:
            next(source)
            left += 1
        except StopIteration:
            return left, failed
        except penstock.DataLoss:
            failed += 1


def test_a_source_goes_on_behind_a_broken_file(tmp_path: Path) -> None:
    for name in ("a.png", "b.png", "c.png"):
        io.write_image(tmp_path / name, RED)
    (tmp_path / "a.png").write_bytes(b"not a picture")
    (tmp_path / "b.png").write_bytes(b"")
    assert left_and_failed(iter(io.images(tmp_path))) == (1, 2)
    arrays = one_of_three_cut_off(tmp_path)
    assert left_and_failed(iter(io.arrays(arrays))) == (2, 1)
    assert left_and_failed(iter(io.arrays(arrays, rate=1000))) == (2, 1)
    np.savez(arrays / "1.npz", x=frame(1))
    whole = (arrays / "1.npz").read_bytes()
    (arrays / "1.npz").write_bytes(whole[: len(whole) // 2])
    (arrays / "2.npz").write_bytes(whole[:80] + bytes([whole[80] ^ 255]) + whole[81:])
    assert left_and_failed(iter(io.arrays(arrays))) == (2, 3)


@pytest.mark.parametrize("rate", [None, 1000.0])
def test_a_stream_goes_on_behind_a_broken_file(pipeline: penstock.Pipeline, tmp_path: Path, rate: float | None) -> None:
    arrays = one_of_three_cut_off(tmp_path)
    assert left_and_failed(pipeline.stream(io.arrays(arrays, rate=rate))) == (2, 1)

    async def all_of() -> tuple[int, int]:
        results = pipeline.astream(io.arrays(arrays, rate=rate))
        left = failed = 0
        while True:
            try:
                await anext(results)
                left += 1
            except StopAsyncIteration:
                return left, failed
            except penstock.DataLoss:
                failed += 1

    assert asyncio.run(all_of()) == (2, 1)


class Slow:
    """Numbers, of which the odd ones fail after a while."""

    goes_on = True

    def __init__(self, wait: float) -> None:
        self.next = -1
        self.wait = wait

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        self.next += 1
        if self.next == 20:
            raise StopIteration
        if self.next % 2 == 0:
            return frame(float(self.next))
        time.sleep(self.wait)
        raise penstock.DataLoss(str(self.next))


@pytest.mark.parametrize("wait", [0, 0.02])
def test_errors_of_a_source_come_in_its_order(pipeline: penstock.Pipeline, wait: float) -> None:
    stream = pipeline.stream(Slow(wait), threaded=True)
    seen: list[float] = []
    while True:
        try:
            seen.append((float(next(stream)["z"][0, 0]) ** 0.5 - 1) / 2)
        except StopIteration:
            break
        except penstock.DataLoss as error:
            seen.append(float(str(error)))
    assert seen == [float(number) for number in range(20)]


def test_a_source_that_only_fails_is_asked_as_often_as_errors_are_wanted(pipeline: penstock.Pipeline) -> None:
    class Gone(Slow):
        def __next__(self) -> object:
            self.next += 1
            raise penstock.DataLoss("gone")

    source = Gone(0)
    with pipeline.stream(source, threaded=True) as stream:
        for _ in range(3):
            with pytest.raises(penstock.DataLoss):
                next(stream)
        time.sleep(0.3)
        assert source.next < 100


def test_a_sink_goes_on_behind_a_broken_file(pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    stream = pipeline.stream(io.arrays(one_of_three_cut_off(tmp_path)), errors="yield")
    with io.JsonLines(tmp_path / "out.jsonl") as sink:
        with pytest.raises(penstock.DataLoss, match="1.npy"):
            sink.consume(stream)
        assert sink.consume(stream) == 1
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


def test_the_source_of_others_ends_with_its_error(pipeline: penstock.Pipeline) -> None:
    class Always:
        def __iter__(self) -> "Always":
            return self

        def __next__(self) -> np.ndarray:
            raise OSError("gone")

    stream = pipeline.stream(Always())
    with pytest.raises(OSError, match="gone"):
        next(stream)
    assert next(stream, None) is None


def tmp_path_without_pictures(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


@pytest.mark.parametrize(
    ("shape", "dtype", "value"),
    [
        ([1, 3, 4, 5], "float32", 200 / 255),
        ([1, 4, 5, 3], "float32", 200 / 255),
        ([3, 4, 5], "uint8", 200),
        ([1, 1, 4, 5], "uint8", 60),
        ([1, 3, None, None], "float32", 200 / 255),
    ],
)
def test_a_picture_becomes_what_the_input_takes(
    shape: list[int | None], dtype: str, value: float, pictures: None
) -> None:
    like = penstock.TensorInfo("x", "", shape, dtype)
    prepared = io.prepare(RED, like)
    assert prepared.shape == tuple(dim or size for dim, size in zip(shape, (1, 3, 6, 8), strict=False))
    assert prepared.dtype == dtype and prepared.flags.c_contiguous
    assert prepared.max() == pytest.approx(value, abs=1e-6)
    with pytest.raises(penstock.InvalidArgument, match="expected the shape of one picture"):
        io.prepare(RED, penstock.TensorInfo("x", "", [1, 10], "float32"))


def test_a_picture_of_pillow_is_prepared_too():
    pillow = pytest.importorskip("PIL.Image", reason="needs Pillow")
    like = penstock.TensorInfo("x", "", [1, 3, None, None], "float32")
    with_alpha = pillow.fromarray(RED).convert("RGBA")
    np.testing.assert_array_equal(io.prepare(with_alpha, like), io.prepare(RED, like))
    with pytest.raises(penstock.InvalidArgument, match="prepare: expected a picture, a numpy array .*, found str"):
        io.prepare("cat.png", like)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder, and in it a place for a file, whose names are not UTF-8."""
    folder = tmp_path / os.fsdecode(b"odd\xff")
    folder.mkdir()
    return folder / os.fsdecode(b"b\xfed")


def test_pictures_may_have_names_that_are_not_utf8(odd: Path, pictures: None) -> None:
    for ending in (".png", ".PNG", ".bmp"):
        file = odd.with_suffix(ending)
        io.write_image(file, RED)
        np.testing.assert_array_equal(io.read_image(file), RED)
    assert len(list(io.images(odd.parent))) == 3
    sink = io.ImageFolder(odd, lambda result: RED)
    sink.write(types.SimpleNamespace(ok=True, number=0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(io.read_image(odd / "000000.png"), RED)


def test_errors_show_names_that_are_not_utf8_with_escapes(odd: Path, pictures: None) -> None:
    odd.with_suffix(".png").write_bytes(b"no picture")
    odd.with_suffix(".npy").write_bytes(b"no array")
    name = re.escape(r"odd\udcff/b\udcfed")
    ending = os.fsdecode(b".p\xffg")
    calls: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: io.read_image(odd), penstock.NotFound, f"{name}': no such file"),
        (lambda: io.read_image(odd.with_suffix(".png")), penstock.DataLoss, f"{name}.png': not a picture"),
        (lambda: io.write_image(odd / "a.png", RED), penstock.NotFound, f"make the folder '.*{name}' first"),
        (lambda: io.write_image(odd.with_suffix(ending), RED), penstock.InvalidArgument, r"ends in '.p\\udcffg'; try"),
        (lambda: io.images(odd), penstock.NotFound, f"{name}': no such file or folder"),
        (lambda: list(io.arrays(odd.with_suffix(".npy"))), penstock.DataLoss, f"{name}.npy': does not begin as"),
    ]
    for call, kind, told in calls:
        with pytest.raises(kind, match=told) as caught:
            call()
        assert str(caught.value).encode()


@NEEDS_OPENCV
def test_videos_with_names_that_are_not_utf8_are_refused(odd: Path) -> None:
    """OpenCV itself crashes at them."""
    file = odd.with_suffix(".mp4")
    file.write_bytes(b"")
    told = r"b\\udcfed.mp4': expected a name in UTF-8, as OpenCV opens no other; rename it$"
    for opened in (io.video, lambda file: io.camera(str(file)), lambda file: io.VideoFile(file, lambda result: RED)):
        with pytest.raises(penstock.InvalidArgument, match=told) as caught:
            opened(file)
        assert str(caught.value).encode()


def test_what_is_no_input_is_refused_with_where_one_is(pipeline: penstock.Pipeline) -> None:
    told = r"like: expected an input of a pipeline, such as pipeline.get_inputs\(\)\[0\], found "
    wrong: list[Any] = [pipeline, pipeline.get_inputs(), (1, 3, 60, 80), RED, "x", None]
    for like in wrong:
        with pytest.raises(penstock.InvalidArgument, match=told + type(like).__name__):
            io.prepare(RED, like)


def test_a_folder_is_told_from_a_picture_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    told = r"picture '.*a.png': expected a file, found a folder; io.images\(\) reads the pictures in it$"
    for read in (io.read_image, lambda path: list(io.images([path]))):
        with pytest.raises(penstock.InvalidArgument, match=told):
            read(tmp_path / "a.png")
    with pytest.raises(penstock.InvalidArgument, match=r"video '.*a.png': expected a file, found a folder$"):
        io.video(tmp_path / "a.png")


def test_mean_and_deviation_are_applied() -> None:
    like = penstock.TensorInfo("x", "", [1, 3, 6, 8], "float32")
    prepared = io.prepare(RED, like, scale=1, mean=[100, 0, 0], std=[50, 1, 1])
    assert prepared[0, 0, 0, 0] == 2


SEEN = np.zeros((32, 48, 3), np.uint8)  # Each corner of its own colour.
SEEN[:16, :16], SEEN[:16, 32:], SEEN[16:, :16], SEEN[16:, 32:] = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """N.jpg and N.png for each EXIF orientation N: as a camera held so kept what is seen as SEEN."""
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    how = image.Transpose
    kept = [None, how.FLIP_LEFT_RIGHT, how.ROTATE_180, how.FLIP_TOP_BOTTOM]
    kept += [how.TRANSPOSE, how.ROTATE_90, how.TRANSVERSE, how.ROTATE_270]
    folder = tmp_path_factory.mktemp("turned")
    for orientation, turn in enumerate(kept, 1):
        picture, exif = image.fromarray(SEEN), image.Exif()
        exif[0x0112] = orientation
        picture = picture if turn is None else picture.transpose(turn)
        picture.save(folder / f"{orientation}.jpg", exif=exif, quality=95, subsampling=0)
        picture.save(folder / f"{orientation}.png", exif=exif)
    return folder


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_turned_as_the_camera_was_held(turned: Path, orientation: int, pictures: None) -> None:
    np.testing.assert_allclose(io.read_image(turned / f"{orientation}.jpg"), SEEN, atol=12)
    np.testing.assert_array_equal(io.read_image(turned / f"{orientation}.png"), SEEN)


def test_the_program_sees_pictures_as_python_does(turned: Path, tmp_path: Path) -> None:
    ports = [helper.make_tensor_value_info(name, TensorProto.UINT8, [32, 48, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    command = [find_program(), "run", tmp_path / "m.onnx", "--input", f"x={turned}", "--output", tmp_path / "out.npz"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outputs = np.load(tmp_path / "out.npz")
    assert len(outputs) == 16
    for seen in outputs.values():
        np.testing.assert_allclose(seen, SEEN, atol=12)


def netpbm(colours: int, most: int, text: bool = False) -> tuple[bytes, np.ndarray]:
    """A file of numbers from 0 to `most`, and what it shows as uint8 [height, width, 3]."""
    numbers = np.random.default_rng(0).integers(0, most + 1, (6, 8, colours))
    kind = {1: 2, 3: 3}[colours] + (0 if text else 3)
    body = " ".join(map(str, numbers.ravel())).encode() if text else numbers.astype(">u2" if most > 255 else "u1")
    shown = np.round(numbers * (255 / most)).astype(np.uint8)
    return b"P%d # made\n8 6\n%d\n" % (kind, most) + bytes(body), np.repeat(shown, 3 // colours, axis=2)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("most", [1, 100, 255, 1023, 65535])
@pytest.mark.parametrize("colours", [1, 3])
def test_numbers_up_to_any_most_become_bytes(
    tmp_path: Path, colours: int, most: int, text: bool, pictures: None
) -> None:
    data, shown = netpbm(colours, most, text)
    (tmp_path / "p.ppm").write_bytes(data)
    np.testing.assert_allclose(io.read_image(tmp_path / "p.ppm"), shown, atol=1)


def test_numbers_that_are_cut_off_are_refused(tmp_path: Path, pictures: None) -> None:
    data, _ = netpbm(3, 65535)
    (tmp_path / "p.ppm").write_bytes(data[:-1])
    with pytest.raises(penstock.DataLoss, match="p.ppm': "):
        io.read_image(tmp_path / "p.ppm")


def test_a_grey_picture_of_16_bits_becomes_bytes(tmp_path: Path, pictures: None) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs Pillow")
    numbers = np.random.default_rng(0).integers(0, 65536, (6, 8)).astype(np.uint16)
    image.fromarray(numbers).save(tmp_path / "g.png")
    shown = np.repeat(np.round(numbers / 257)[..., None], 3, axis=2).astype(np.uint8)
    np.testing.assert_allclose(io.read_image(tmp_path / "g.png"), shown, atol=1)


@pytest.mark.parametrize("options", [{"scale": 1 / 255}, {"mean": [1, 2, 3]}, {"std": 2}])
def test_scale_mean_and_deviation_are_refused_for_integers(options: dict) -> None:
    like = penstock.TensorInfo("x", "", [1, 3, 6, 8], "uint8")
    with pytest.raises(penstock.InvalidArgument, match="'x' is uint8.*leave out scale, mean and std"):
        io.prepare(RED, like, **options)


def test_numbers_that_an_input_does_not_hold_are_refused() -> None:
    like = penstock.TensorInfo("x", "", [1, 3, 6, 8], "int8")
    with pytest.raises(penstock.InvalidArgument, match="'x' is int8, -128 to 127, but the picture has 0 to 200"):
        io.prepare(RED, like)
    shifted = io.prepare(RED.astype(np.int16) - 128, like)
    assert shifted.min() == -128 and shifted.max() == 72


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint16", "uint64", "float16", "float32", "float64"]
)
def test_pictures_of_all_numbers_are_resized(dtype: str, pictures: None) -> None:
    picture = (RED // 2).astype(dtype)
    resized = io.resize(picture, 3, 5)
    assert resized.dtype == dtype and resized.shape == (3, 5, 3)
    assert resized.min() == 0 and resized.max() == 100
    grey = io.resize(picture[:, :, 0], 3, 5)
    assert grey.shape == (3, 5) and np.all(grey == 100)


def test_boxes_are_drawn_on_a_copy() -> None:
    drawn = io.draw_boxes(RED, [(1, 1, 5, 5), (-9, -9, 99, 99), (3, 3, 3, 3)], width=1)
    assert tuple(drawn[1, 1]) == (0, 255, 0) and tuple(drawn[2, 2]) == (200, 0, 0)
    assert RED[1, 1, 1] == 0


def test_points_are_drawn_on_a_copy() -> None:
    drawn = io.draw_points(RED, [(4, 3), (0, 0), (-9, 3), (99, 99)], colour=(0, 0, 255))
    blue = {(int(y), int(x)) for y, x in zip(*np.nonzero(drawn[..., 2]), strict=True)}
    assert blue == {(2, 3), (2, 4), (3, 3), (3, 4), (0, 0)}
    assert RED[..., 2].max() == 0


def test_a_crop_is_black_beyond_the_picture() -> None:
    picture = np.arange(1, 49, dtype=np.uint8).reshape(6, 8)
    whole = np.pad(picture, 30)
    for left in range(-10, 11):
        for top in (-7, -2, 0, 3, 6):
            for size in (1, 3, 20):
                cropped = io.crop(picture, (left, top, left + size, top + size))
                np.testing.assert_array_equal(cropped, whole[30 + top :, 30 + left :][:size, :size])
    assert io.crop(RED, (5, 5, 2, 2)).shape == (1, 1, 3)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_sound_is_read_in_blocks(tmp_path: Path, width: int) -> None:
    half = {1: b"\xc0", 2: b"\x00\x40", 3: b"\x00\x00\x40", 4: b"\x00\x00\x00\x40"}[width]
    with wave.open(str(tmp_path / "s.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(width)
        file.setframerate(16000)
        file.writeframes((half + (b"\x80" if width == 1 else b"\x00" * width)) * 10)
    blocks = list(io.wav(tmp_path / "s.wav", 4))
    assert [block.dtype for block in blocks] == [np.float32] * 3
    np.testing.assert_array_equal(np.concatenate(blocks), [0.25] * 10 + [0] * 2)
    assert len(list(io.wav(tmp_path / "s.wav", 4, hop=2))) == 4
    for cut in (-1, 50):
        (tmp_path / "cut.wav").write_bytes((tmp_path / "s.wav").read_bytes()[:cut])
        with pytest.raises(penstock.DataLoss, match="cut.wav': is truncated"):
            list(io.wav(tmp_path / "cut.wav", 4))
    (tmp_path / "bad.wav").write_bytes(b"RIFFxxxx")
    with pytest.raises(penstock.DataLoss, match="bad.wav"):
        list(io.wav(tmp_path / "bad.wav", 4))


@pytest.mark.parametrize("length", [1, 3, 4, 5, 9, 10, 11, 12])
@pytest.mark.parametrize("hop", [1, 2, 3, 4, 5, 9])
def test_a_sound_ends_with_the_first_block_that_reaches_its_end(tmp_path: Path, length: int, hop: int) -> None:
    samples = np.arange(1, length + 1, dtype="<i2") * 256
    with wave.open(str(tmp_path / "s.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(samples.tobytes())
    blocks = list(io.wav(tmp_path / "s.wav", 4, hop))
    starts = [start for start in range(0, length, hop) if start == 0 or start - hop + 4 < length]
    padded = np.concatenate([samples / 32768, np.zeros(4)]).astype(np.float32)
    np.testing.assert_array_equal(blocks, [padded[start : start + 4] for start in starts])


def test_a_sound_is_read_block_by_block_and_by_the_program_alike(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["x"], ["y"], "copy")
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [400]) for name in ("x", "y")]
    model = helper.make_model(
        helper.make_graph([node], "copy", sides[:1], sides[1:]), opset_imports=[helper.make_opsetid("", 18)]
    )
    onnx.save(model, tmp_path / "copy.onnx")
    with wave.open(str(tmp_path / "s.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(np.random.default_rng(1).integers(-32768, 32767, 2 * 16123, "<i2").tobytes())
    outcome = subprocess.run(
        [find_program(), "run", "copy.onnx", "--input", "x=s.wav", "--hop", "160", "--output", "program.npz"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    with np.load(tmp_path / "program.npz") as archive:
        by_program = [archive[name] for name in sorted(archive.files)]
    np.testing.assert_array_equal(list(io.wav(tmp_path / "s.wav", 400, 160)), by_program)


def test_arrays_are_read_as_the_program_writes_them(tmp_path: Path, model: Path, pipeline: penstock.Pipeline) -> None:
    with io.Npz(tmp_path / "all.npz") as sink, io.Npz(tmp_path / "folder") as folder:
        for result in pipeline.stream(frame(i) for i in range(12)):
            sink.write(result)
            folder.write(result)
    for place in (tmp_path / "all.npz", tmp_path / "folder"):
        frames = list(io.arrays(place))
        assert len(frames) == 12
        for i, one in enumerate(frames):
            np.testing.assert_array_equal(one["z"], expected(i))
    np.save(tmp_path / "rows.npy", np.arange(8, dtype=np.float32).reshape(2, 4))
    assert [row.shape for row in io.rows(tmp_path / "rows.npy")] == [(1, 4), (1, 4)]
    assert [result.ok for result in pipeline.stream(io.rows(tmp_path / "rows.npy"))] == [True, True]
    np.savez(tmp_path / "beside.npz", **{"0/x": np.zeros(1), "01/x": np.ones(1), "y": np.full(1, 5.0)})
    beside = [{name: value.item() for name, value in one.items()} for one in io.arrays(tmp_path / "beside.npz")]
    assert beside == [{"x": 0, "y": 5}, {"x": 1, "y": 5}]
    for names in (["0/x", "1/x", "x"], ["0/x", "00/x"]):
        np.savez(tmp_path / "twice.npz", **{name: np.zeros(1) for name in names})
        with pytest.raises(penstock.InvalidArgument, match=f"twice.npz': array '{names[-1]}': "):
            list(io.arrays(tmp_path / "twice.npz"))
    (tmp_path / "bad.npz").write_bytes(b"PK")
    with pytest.raises(penstock.DataLoss, match="bad.npz"):
        list(io.arrays(tmp_path / "bad.npz"))


def test_raw_frames_come_from_a_pipe() -> None:
    data = np.arange(12, dtype=np.uint8)
    frames = list(io.raw((2, 3), file=streams.BytesIO(data.tobytes())))
    np.testing.assert_array_equal(np.stack(frames), data.reshape(2, 2, 3))
    with pytest.raises(penstock.DataLoss, match="expected 6 bytes for each, found 5 in the last"):
        list(io.raw((2, 3), file=streams.BytesIO(data.tobytes()[:-1])))


def test_raw_frames_come_from_standard_input(model: Path) -> None:
    text = """
import sys, penstock
with penstock.split(sys.argv[1]) as pipeline:
    for frame in pipeline.stream(penstock.io.raw((1, 4), "float32")):
        print(frame["z"][0, 0])
"""
    frames = np.concatenate([frame(i) for i in range(3)])
    done = subprocess.run([sys.executable, "-c", text, model], input=frames.tobytes(), capture_output=True, check=True)
    assert done.stdout.split() == [str(expected(i)[0, 0]).encode() for i in range(3)]


def test_a_paced_source_keeps_its_rate(pipeline: penstock.Pipeline) -> None:
    start = time.monotonic()
    count = sum(result.ok for result in pipeline.stream(io.pace([frame(0)] * 21, rate=100)))
    assert count == 21
    assert time.monotonic() - start >= 0.2
    with pytest.raises(penstock.InvalidArgument, match="rate: expected more than 0"):
        io.pace([], 0)


def test_the_latest_item_replaces_those_that_nobody_took(pipeline: penstock.Pipeline) -> None:
    source = io.latest(frame(i) for i in range(1000))
    values = []
    for result in pipeline.stream(source):
        values.append(float(result["z"][0, 0]))
    assert values == sorted(values)
    assert values[-1] == (2 * 999 + 1) ** 2
    assert len(values) + source.left_out == 1000


def test_the_latest_source_tells_its_failure() -> None:
    def failing():
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(io.latest(failing()))


def test_results_are_lines_of_json(
    pipeline: penstock.Pipeline, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with io.JsonLines(tmp_path / "out.jsonl") as sink:
        assert sink.consume(pipeline.stream(["1", "2"], feed=lambda text: frame(float(text)))) == 2
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines[1] == {"frame": 1, "tag": "2", "outputs": {"z": [[25.0] * 4]}}
    pipeline.push(frame(float("nan")))
    io.JsonLines().write(pipeline.pop())
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["outputs"] == {"z": [[None] * 4]}
    pipeline.push(frame(0))
    pipeline.cancel()
    io.JsonLines().write(pipeline.pop())
    assert json.loads(capsys.readouterr().out)["frame"] == 3
    with pytest.raises(penstock.NotFound, match="cannot be written: .*; make the folder '.*/no' first$"):
        io.JsonLines(tmp_path / "no" / "where.jsonl")


def test_what_is_written_at_the_end_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(penstock.NotFound, match="where.npz': cannot be written: No such file or directory"):
        io.Npz(tmp_path / "no" / "where.npz")
    io.Npz(tmp_path / "here.npz").close()
    assert (tmp_path / "here.npz").exists()


@pytest.mark.parametrize(
    "make", [lambda file: io.JsonLines(f"{file}.jsonl"), lambda file: io.Npz(f"{file}.npz"), io.Npz]
)
def test_a_sink_that_is_closed_takes_nothing_more(
    pipeline: penstock.Pipeline, tmp_path: Path, make: Callable[[Path], io.Sink]
) -> None:
    sink = make(tmp_path / "out")
    sink.close()
    sink.close()
    with pytest.raises(penstock.FailedPrecondition, match="the sink is closed"):
        sink.consume(pipeline.stream([frame(1)]))


@NEEDS_OPENCV
def test_what_a_video_leaves_out_is_told(tmp_path: Path) -> None:
    with pytest.raises(penstock.InvalidArgument, match="codec: expected four letters, such as 'mp4v'"):
        io.VideoFile(tmp_path / "a.mp4", lambda result: RED, codec="x")
    with io.VideoFile(tmp_path / "a.mp4", lambda result: np.zeros((41, 30, 3), np.uint8)) as sink:
        told = "last row and column of odd sizes: 30 x 41 pixels become 30 x 40"
        with pytest.warns(penstock.PenstockWarning, match=told):
            sink.write(types.SimpleNamespace(ok=True, number=0))  # type: ignore[arg-type]


def test_a_picture_of_other_numbers_and_channels_is_prepared_or_told() -> None:
    like = penstock.TensorInfo("x", "", [1, 3, 4, 6], "float32")
    grey = np.arange(24, dtype=np.uint8).reshape(4, 6, 1)
    np.testing.assert_array_equal(io.prepare(grey, like), io.prepare(grey[:, :, 0], like))
    colours = np.repeat(grey, 3, axis=2)
    clear = np.concatenate([colours, grey], axis=2)
    np.testing.assert_array_equal(io.prepare(clear, like), io.prepare(colours, like))
    with pytest.raises(
        penstock.InvalidArgument, match=r"found \[3, 4, 6\]; .transpose\(1, 2, 0\) puts the channels last"
    ):
        io.prepare(np.zeros((3, 4, 6), np.uint8), like)
    with pytest.raises(penstock.InvalidArgument, match=r"numbers up to 5888, .* give scale=1/65535"):
        io.prepare(colours.astype(np.uint16) * 256, like)
    assert io.prepare(colours.astype(np.uint16) * 256, like, scale=1 / 65535).max() == pytest.approx(5888 / 65535)
    with pytest.warns(penstock.PenstockWarning, match="divided by 255 once more; give scale=1"):
        io.prepare(colours / 255, like)


def test_a_disk_that_is_full_is_told_with_the_file(pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    (tmp_path / "full.jsonl").symlink_to("/dev/full")
    told = "full.jsonl': cannot be written: No space left on device; 0 frames are in it"
    with pytest.raises(penstock.ResourceExhausted, match=told), io.JsonLines(tmp_path / "full.jsonl") as sink:
        sink.consume(pipeline.stream([frame(1)]))


@contextlib.contextmanager
def disk_of(room: int) -> Iterator[None]:
    """As where the disk is full: no byte of a file goes beyond so many."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


@pytest.mark.parametrize("room", [0, 100, 8192, 20_000])
def test_lines_on_a_full_disk_are_whole(pipeline: penstock.Pipeline, tmp_path: Path, room: int) -> None:
    file, results = tmp_path / "out.jsonl", list(pipeline.stream([frame(i) for i in range(1000)]))
    with io.JsonLines(tmp_path / "all.jsonl") as sink:
        sink.consume(results)
    everything = (tmp_path / "all.jsonl").read_bytes()
    whole = everything[: everything.rfind(b"\n", 0, room) + 1]
    count = whole.count(b"\n")
    told = f"'{file}': cannot be written: File too large; {count} frame{'s are' if count != 1 else ' is'} in it"
    sink = io.JsonLines(file)
    with disk_of(room), pytest.raises(penstock.PermissionDenied) as refused:
        sink.consume(results)
    assert (str(refused.value), file.read_bytes()) == (told, whole)
    sink.write(results[-1])  # There is room again.
    sink.close()
    assert file.read_bytes() == whole + everything.splitlines(keepends=True)[-1]


def test_lines_are_written_where_nobody_closes_them(pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    io.JsonLines(tmp_path / "out.jsonl").consume(pipeline.stream([frame(1)]))
    assert json.loads((tmp_path / "out.jsonl").read_text())["frame"] == 0


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.npz", "a/000000.npz", "a.penstock", "a.zip", "a.trace"])
def test_what_a_full_disk_does_not_take_leaves_no_part(model: Path, tmp_path: Path, pictures: None, name: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    file, full = tmp_path / name, r"cannot (be written|write)"
    with penstock.split(model, cuts=[], trace=True) as pipeline:
        results = list(pipeline.stream([frame(i) for i in range(100)]))
        write: Callable[[], Any] = lambda: pipeline.save(file)  # noqa: E731
        if file.suffix in (".png", ".jpg"):
            write = lambda: io.write_image(file, noise)  # noqa: E731
        elif name == "a.trace":
            write = lambda: pipeline.trace(file)  # noqa: E731
        elif file.suffix == ".npz":
            sink = io.Npz(tmp_path / "a" if "/" in name else file)
            write = lambda: (sink.consume(results), sink.close())  # noqa: E731
        with disk_of(80), pytest.raises(penstock.PenstockError, match=full):
            write()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path != model] == []


def passing(name: str, type: str) -> penstock.Pipeline:
    """Gives what it gets, as the output of that name."""
    app = penstock.App()
    app.input("x")
    app.function("f", np.copy, {"x": type}, {name: type}, reads="x")
    app.output(name, f"f.{name}")
    return app.start()


def test_bfloat16_is_written_as_numbers_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with passing("y", "bf16[2]") as pipeline:
        io.JsonLines().consume(pipeline.stream([np.array([1.5, np.nan], ml_dtypes.bfloat16)]))
    assert capsys.readouterr().out == '{"frame": 0, "outputs": {"y": [1.5, null]}}\n'


def test_complex_numbers_are_no_json() -> None:
    told = "output 'y': complex numbers have no form in JSON lines; io.Npz writes them"
    with passing("y", "c64[2]") as pipeline, pytest.raises(penstock.InvalidArgument, match=told):
        io.JsonLines().consume(pipeline.stream([np.array([1, 2j], np.complex64)]))


@pytest.mark.parametrize(
    ("tag", "written"),
    [(float("nan"), None), (float("-inf"), None), (0.5, 0.5), (np.float32("nan"), None), (np.int64(7), 7), ("a", "a")],
)
def test_a_tag_is_json(
    pipeline: penstock.Pipeline, capsys: pytest.CaptureFixture[str], tag: object, written: object
) -> None:
    pipeline.push(frame(1), tag=tag)
    io.JsonLines().write(pipeline.pop())
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["tag"] == written


@pytest.mark.parametrize("name", ["file", "allow_pickle", "self"])
@pytest.mark.parametrize("target", ["folder", "archive.npz"])
def test_an_output_may_have_any_name_in_an_archive(tmp_path: Path, name: str, target: str) -> None:
    with passing(name, "f32[2]") as pipeline, io.Npz(tmp_path / target) as sink:
        sink.consume(pipeline.stream([np.array([1, 2], np.float32)]))
    (found,) = io.arrays(tmp_path / target)
    assert {key: value.tolist() for key, value in found.items()} == {name: [1, 2]}


class Kept(io.Sink):
    """A user's own sink: keeps what comes, and fails as a full disk does once it has `room` of it."""

    def __init__(self, room: int) -> None:
        self.room, self.values, self.closed = room, [], 0

    def write(self, result: penstock.Frame) -> None:
        if len(self.values) == self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.values.append((result.tag, float(result["z"][0, 0])))

    def close(self) -> None:
        self.closed += 1


def test_a_sink_of_ones_own_takes_what_a_source_of_ones_own_gives(pipeline: penstock.Pipeline) -> None:
    def source():
        yield from ["1", "2", "wrong", "4"]

    def feed(text: str) -> np.ndarray:
        return frame(float(text)) if text.isdigit() else np.zeros((7, 7), np.float32)

    with Kept(room=9) as sink:
        stream = pipeline.stream(source(), feed=feed)
        with pytest.raises(penstock.InvalidArgument, match=r"found f32\[7,7\]"):
            sink.consume(stream)
        assert sink.values == [("1", 9.0), ("2", 25.0)]
        assert sink.consume(stream) == 1  # Behind what was wrong.
    assert sink.values[2:] == [("4", 81.0)]
    assert sink.closed == 1


def test_a_sink_of_ones_own_that_fails_ends_its_stream_alone(pipeline: penstock.Pipeline) -> None:
    ended = []

    def source():
        try:
            for number in range(10_000):
                yield frame(number)
        finally:
            ended.append(True)

    sink = Kept(room=2)
    with pytest.raises(OSError, match="No space left"), sink:
        sink.consume(pipeline.stream(source()))
    assert len(sink.values) == 2 and sink.closed == 1
    assert ended == [True]
    assert float(pipeline(frame(3))[0][0, 0]) == 49


def test_pictures_are_written_with_drawings(pipeline: penstock.Pipeline, tmp_path: Path) -> None:
    with io.ImageFolder(tmp_path / "drawn", lambda result: io.draw_boxes(RED, [(1, 1, 5, 5)])) as sink:
        sink.consume(pipeline.stream([frame(0)] * 2))
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == ["000000.png", "000001.png"]
    assert tuple(io.read_image(tmp_path / "drawn/000001.png")[1, 1]) == (0, 255, 0)


class FakeCapture:
    def __init__(self, what: object) -> None:
        self.left = 5 if what != "closed" else 0

    def isOpened(self) -> bool:
        return self.left > 0

    def set(self, what: int, value: float) -> None:
        pass

    def read(self) -> tuple[bool, np.ndarray | None]:
        self.left -= 1
        return (True, RED[..., ::-1]) if self.left >= 0 else (False, None)

    def release(self) -> None:
        pass


def test_video_and_cameras_are_read_by_opencv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.SimpleNamespace(VideoCapture=FakeCapture, CAP_PROP_FRAME_WIDTH=3, CAP_PROP_FRAME_HEIGHT=4)
    monkeypatch.setitem(sys.modules, "cv2", library)
    (tmp_path / "clip.mp4").write_bytes(b"")
    frames = list(io.video(tmp_path / "clip.mp4"))
    assert len(frames) == 5
    np.testing.assert_array_equal(frames[0], RED)
    seen = 0
    with pytest.raises(penstock.Unavailable, match=r"^camera 0: gives no more pictures; is it connected\?"):
        for _ in io.camera(0, width=8):
            seen += 1
    assert 1 <= seen <= 5
    with pytest.raises(penstock.NotFound, match="camera 'closed': OpenCV cannot open it; is it connected"):
        io.camera("closed")


def test_without_opencv_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    (tmp_path / "clip.mp4").write_bytes(b"")
    with pytest.raises(penstock.Unavailable, match=r"needs OpenCV, which is not here; pip install 'penstock\[video\]'"):
        io.video(tmp_path / "clip.mp4")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(penstock.Unavailable, match=r"pip install 'penstock\[images\]'"):
        io.read_image(tmp_path / "a.png")


SHADES = [0, 60, 120, 180, 240]


@pytest.fixture
def clip(tmp_path: Path, pipeline: penstock.Pipeline) -> Path:
    """Five pictures, redder and redder, written by OpenCV from a stream's results."""

    def draw(result: penstock.Frame) -> np.ndarray:
        picture = np.zeros((96, 128, 3), np.uint8)
        picture[..., 0] = result.tag
        return picture

    with io.VideoFile(tmp_path / "clip.mp4", draw, rate=10) as sink:
        assert sink.consume(pipeline.stream(SHADES, feed=lambda shade: frame(shade))) == 5
    return tmp_path / "clip.mp4"


@NEEDS_OPENCV
@pytest.mark.parametrize(
    ("second", "found"),
    [
        (np.zeros((96, 64, 3), np.uint8), "expected 128 x 96 pixels as the first has, found 64 x 96"),
        (np.zeros((96, 128, 3), np.float32), "expected uint8"),
        (None, "expected uint8"),
    ],
)
def test_a_video_refuses_other_pictures(
    tmp_path: Path, pipeline: penstock.Pipeline, second: object, found: str
) -> None:
    pictures = iter([np.zeros((96, 128, 3), np.uint8), second])
    with io.VideoFile(tmp_path / "clip.mp4", lambda _: next(pictures)) as sink:
        with pytest.raises(penstock.InvalidArgument, match=f"frame 1: {found}"):
            sink.consume(pipeline.stream([frame(0), frame(1)]))


@NEEDS_OPENCV
def test_a_video_streams_through_a_pipeline(clip: Path, pipeline: penstock.Pipeline) -> None:
    results = list(pipeline.stream(io.video(clip), feed=lambda picture: frame(picture[48, 64, 0])))
    assert len(results) == 5
    for result, shade in zip(results, SHADES, strict=True):
        assert result.tag.shape == (96, 128, 3) and result.tag.dtype == np.uint8
        assert np.abs(result.tag[48, 64].astype(int) - (shade, 0, 0)).max() < 12  # The codec's loss.
        np.testing.assert_array_equal(result["z"], expected(float(result.tag[48, 64, 0])))


@NEEDS_OPENCV
def test_a_camera_gives_the_newest_picture(clip: Path) -> None:
    camera = io.camera(str(clip))  # To OpenCV, a file is a camera that ends.
    seen = [int(picture[48, 64, 0]) for picture in camera]
    assert seen == sorted(seen) and abs(seen[-1] - SHADES[-1]) < 12
    assert len(seen) + camera.left_out == 5


@NEEDS_OPENCV
def test_what_is_no_video_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.mp4").write_bytes(b"not a video")
    with pytest.raises(penstock.DataLoss, match="broken.mp4': not a video that OpenCV can read"):
        io.video(tmp_path / "broken.mp4")
    with pytest.raises(penstock.NotFound, match="no such file"):
        io.video(tmp_path / "none.mp4")
    with pytest.raises(penstock.NotFound, match="nowhere/a.mp4': cannot be written: No such file or directory"):
        io.VideoFile(tmp_path / "nowhere/a.mp4", lambda result: RED)
    with (
        pytest.raises(penstock.PermissionDenied, match="OpenCV cannot write it; is its folder there"),
        io.VideoFile(tmp_path / "a.nothing", lambda result: RED) as sink,
    ):
        sink.write(types.SimpleNamespace(ok=True, number=0))  # type: ignore[arg-type]


@NEEDS_OPENCV
@pytest.mark.parametrize(
    ("index", "found"),
    [
        (-1, "int -1"),
        (np.int64(-1), "int64 .*-1.*"),
        (2**31, "int 2147483648"),
        (2.5, "float 2.5"),
        (True, "bool True"),
        (None, "NoneType None"),
        ("", "str ''"),
    ],
)
def test_what_names_no_camera_is_refused(index: object, found: str) -> None:
    """Of a number below 0 OpenCV crashes."""
    told = f"^camera: expected a number from 0 on, or a device, an address or a file, such as 0, found {found}$"
    with pytest.raises(penstock.InvalidArgument, match=told):
        io.camera(index)  # type: ignore[arg-type]


@NEEDS_OPENCV
def test_a_camera_may_be_a_path(clip: Path) -> None:
    assert len(list(io.camera(clip))) > 0  # And ends without an error, as it is a file.
    with pytest.raises(penstock.NotFound, match="^camera '.*none': OpenCV cannot open it"):
        io.camera(clip.with_name("none"))


@pytest.mark.parametrize("size", [(0, 4), (4, 0), (-1, 4), (2.5, 4), ("4", 4)])
def test_a_size_that_no_picture_has_is_refused(size: tuple[int, int]) -> None:
    told = "resize: expected height and width in pixels, 1 or more, found"
    with pytest.raises(penstock.InvalidArgument, match=told):
        io.resize(RED, *size)


@pytest.mark.parametrize("picture", [None, [[1]], RED[0, 0], RED[:0], RED.astype(object)])
def test_what_is_no_picture_is_refused(picture: np.ndarray) -> None:
    with pytest.raises(penstock.InvalidArgument, match="resize: expected a picture, .*, found"):
        io.resize(picture, 4, 4)


@pytest.mark.parametrize("box", [3, (1, 2, 3), (1, 2, 3, 4, 5), (1, 2, 3, float("nan"))])
def test_what_is_no_box_is_refused(box: tuple[float, ...]) -> None:
    with pytest.raises(penstock.InvalidArgument, match=r"crop: expected a box \(left, top, right, bottom\) in pixels"):
        io.crop(RED, box)


@pytest.mark.parametrize("source", [io.read_image, io.images, io.arrays, io.rows, lambda path: io.wav(path, 4)])
def test_what_is_no_path_is_refused(source: Callable[[object], object]) -> None:
    with pytest.raises(penstock.InvalidArgument, match="expected a path, such as 'folder/file', found float 0.5"):
        source([0.5] if source in (io.images, io.arrays) else 0.5)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: io.draw_boxes(RED, [(1, 2, 3)]), r"draw_boxes: expected a box \(left, top, right, bottom\) in pixels"),
        (lambda: io.draw_boxes(RED, ["abcd"]), "draw_boxes: expected a box .* found 'abcd'"),
        (lambda: io.draw_points(RED, [(1, float("nan"))]), r"draw_points: expected a point \(x, y\) in pixels"),
        (lambda: io.draw_points(None, []), "draw_points: expected a picture"),
        (lambda: io.raw(3), r"shape: expected a list of whole numbers, such as \(720, 1280, 3\), found int 3"),
        (lambda: io.raw((3, 2.5)), "shape: expected a list of whole numbers"),
        (lambda: io.wav("a.wav", "512"), "samples: expected a whole number, such as 512, found str '512'"),
        (lambda: io.wav("a.wav", 512, 0.5), "hop: expected a whole number, such as 256, found float 0.5"),
        (lambda: io.wav("a.wav", 512, 0), "wav: expected samples and hop of 1 or more, found 512 and 0"),
        (lambda: io.wav("a.wav", 512, sample_rate="16000"), "sample_rate: expected a whole number, .*, found str"),
        (lambda: io.JsonLines(3), "target: expected a file's name or something with 'write', .*, found int 3"),
        (lambda: io.Npz(3), "target: expected a path, such as 'folder/file', found int 3"),
        (lambda: io.ImageFolder(None, abs), "folder: expected a path, such as 'folder/file', found NoneType None"),
        (lambda: io.pace([], "fast"), "rate: expected more than 0 items a second, such as 30, found str 'fast'"),
    ],
)
def test_a_wrong_argument_is_refused(call: Callable[[], object], told: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=told):
        call()


def test_a_file_that_is_no_array_is_not_called_a_pickle(tmp_path: Path) -> None:
    """numpy would have it read as one, "if you trust the file"."""
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(penstock.DataLoss, match=r"notes.txt': does not begin as a .npy file; save the array by numpy"):
        list(io.arrays(tmp_path / "notes.txt"))


def test_a_picture_as_it_is_read_is_refused_with_what_prepares_it() -> None:
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 3, 6, 8]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "relu", ends[:1], ends[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    with penstock.split(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)) as pipeline:
        with pytest.raises(penstock.InvalidArgument, match=r"found u8\[6,8,3\]; penstock.io.prepare\(image, "):
            pipeline(np.zeros((6, 8, 3), np.uint8))
        with pytest.raises(penstock.InvalidArgument, match=r"found u8\[6,8\]; convert it with .astype\('float32'\)"):
            pipeline(np.zeros((6, 8), np.uint8))
