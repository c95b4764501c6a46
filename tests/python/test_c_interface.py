"""penstock.h through ctypes: models, states, texts and memory; what needs no engine is in src/penstock/c/c_test.cc."""

import ctypes
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import pytest
from line import expected, frame

import penstock

FOREVER = -1
FLOAT, STRING = 1, 8


class Tensor(ctypes.Structure):
    _fields_ = (
        ("dtype", c_int32),
        ("rank", c_int32),
        ("dims", POINTER(c_int64)),
        ("data", c_void_p),
        ("capacity_bytes", c_uint64),
    )


class Text(ctypes.Structure):
    _fields_ = (("data", c_char_p), ("bytes", c_size_t))


class Option(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class PushOptions(ctypes.Structure):
    """As of version 1, cut off behind `stream`: what is left out counts as 0."""

    _fields_ = (("size", c_size_t), ("tag", c_uint64), ("stream", c_uint64))


class CError(Exception):
    """The parts of a penstock_error."""

    def __init__(self, library: ctypes.CDLL, error: c_void_p):
        self.code = library.penstock_error_code_name(error).decode()
        self.reason = library.penstock_error_reason(error).decode()
        self.places = [
            (
                library.penstock_error_place_kind(error, c_size_t(i)).decode(),
                library.penstock_error_place_name(error, c_size_t(i))
                or library.penstock_error_place_number(error, c_size_t(i)),
            )
            for i in range(library.penstock_error_place_count(error))
        ]
        super().__init__(library.penstock_error_message(error).decode())
        library.penstock_error_free(error)


class Library:
    def __init__(self, file: str):
        self.c = ctypes.CDLL(file)
        texts = ("error_message", "error_reason", "error_code_name", "error_place_kind", "error_place_name", "version")
        for name in texts:
            getattr(self.c, f"penstock_{name}").restype = c_char_p
        self.c.penstock_error_place_number.restype = c_uint64
        for name in ("error_place_count", "states_count", "result_count"):
            getattr(self.c, f"penstock_{name}").restype = c_size_t
        self.c.penstock_states_name.restype = c_char_p
        self.c.penstock_result_stream.restype = c_uint64

    def call(self, name: str, *arguments: object) -> None:
        error = c_void_p()
        if getattr(self.c, f"penstock_{name}")(*arguments, byref(error)) != 0:
            raise CError(self.c, error)

    def load(self, path: Path, **options: str) -> c_void_p:
        pipeline = c_void_p()
        given = (Option * len(options))(*((key.encode(), value.encode()) for key, value in options.items()))
        self.call("load", os.fsencode(path), given, c_size_t(len(options)), byref(pipeline))
        return pipeline

    def push(self, pipeline: c_void_p, array: np.ndarray, stream: int = 0) -> None:
        given, kept = tensor_of(array)
        options = PushOptions(ctypes.sizeof(PushOptions), 0, stream)
        self.call("push", pipeline, byref(given), c_size_t(1), byref(options), None)
        del kept  # It was copied.

    def pop(self, pipeline: c_void_p) -> np.ndarray:
        result, output = c_void_p(), Tensor()
        self.call("pop", pipeline, c_int64(FOREVER), byref(result))
        try:
            self.call("result_tensor", result, c_size_t(0), byref(output))
            return array_of(output)
        finally:
            self.c.penstock_result_free(result)


def tensor_of(array: np.ndarray) -> tuple[Tensor, object]:
    """The tensor, and what must live as long."""
    dims = (c_int64 * array.ndim)(*array.shape)
    if array.dtype == object:
        texts = [text.encode() for text in array.flat]
        values = (Text * len(texts))(*((text, len(text)) for text in texts))
        return Tensor(STRING, array.ndim, dims, ctypes.cast(values, c_void_p), ctypes.sizeof(values)), (
            dims,
            values,
            texts,
        )
    array = np.ascontiguousarray(array, np.float32)
    return Tensor(FLOAT, array.ndim, dims, array.ctypes.data, array.nbytes), (dims, array)


def array_of(tensor: Tensor) -> np.ndarray:
    shape = tuple(tensor.dims[: tensor.rank])
    if tensor.dtype == STRING:
        values = ctypes.cast(tensor.data, POINTER(Text))
        texts = [ctypes.string_at(values[i].data, values[i].bytes).decode() for i in range(int(np.prod(shape)))]
        return np.array(texts, object).reshape(shape)
    assert tensor.dtype == FLOAT
    values = ctypes.cast(tensor.data, POINTER(ctypes.c_float))
    return np.array(values[: int(np.prod(shape))], np.float32).reshape(shape)


@pytest.fixture(scope="module")
def library() -> Library:
    return Library("libpenstock.so.0")  # The one that the package has loaded.


def test_a_model_is_cut_loaded_and_run(library: Library, model: Path) -> None:
    pipeline = library.load(model, cut="increment", capacity="2")
    for value in range(2):
        library.push(pipeline, frame(value))
    for value in range(2):
        np.testing.assert_array_equal(library.pop(pipeline), expected(value))
    library.c.penstock_free(pipeline)
    assert library.c.penstock_version().decode() == penstock.__version__


def test_the_example_runs_a_package_with_room_for_one_frame(model: Path, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler here")
    maps = Path("/proc/self/maps").read_text().splitlines()
    library = next(Path(line[line.index("/") :]) for line in maps if "libpenstock.so" in line)
    root = Path(__file__).resolve().parents[2]
    headers = [f"-I{root / 'src'}", f"-I{root / 'src/penstock/c'}"]
    program = tmp_path / "frames"
    command = ["cc", "-std=c99", "-Wall", "-Werror", *headers, root / "examples/c/main.c", "-o", program, library]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}"], check=True)
    penstock.split(model, capacity=1, output=tmp_path / "one.penstock").shut_down()
    done = subprocess.run(
        [program, tmp_path / "one.penstock", "3"], capture_output=True, text=True, timeout=60, check=False
    )
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["frame", f"{i}:"] for i in range(3)], done
    for frames in ("x", "-3", "3x", "", "99999999999"):
        refused = subprocess.run(
            [program, tmp_path / "one.penstock", frames], capture_output=True, text=True, timeout=60, check=False
        )
        told = f"frames: FRAMES: expected a whole number from 0 to 2147483647, found '{frames}'\n"
        assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", told)


def test_an_error_has_its_parts(library: Library, model: Path, tmp_path: Path) -> None:
    with pytest.raises(CError, match="did you mean") as raised:
        library.load(model, cut="incremnt")
    assert raised.value.code == "not_found"
    with pytest.raises(CError, match="no such option"):
        library.load(model, cutt="increment")
    (tmp_path / "broken.onnx").write_bytes(b"\x08\x07broken")
    with pytest.raises(CError) as raised:
        library.load(tmp_path / "broken.onnx")
    assert ("file", os.fsencode(tmp_path / "broken.onnx")) in raised.value.places
    (tmp_path / "app.yaml").write_text("penstock_app: 1\n")
    with pytest.raises(CError, match="found an application"):
        library.load(tmp_path / "app.yaml")


def test_an_error_of_a_push_names_its_input(library: Library, model: Path) -> None:
    pipeline = library.load(model)
    sizes = (c_int64 * 2)(1, -4)
    odd = Tensor(FLOAT, 2, sizes, None, 0)
    for name in ("push", "run"):
        with pytest.raises(CError, match="expected sizes of 0 or more, found -4") as raised:
            library.call(name, pipeline, byref(odd), c_size_t(1), None, byref(c_void_p()))
        assert ("input", b"x") in raised.value.places
    borrowed = ctypes.POINTER(Tensor)()
    library.call("acquire_input", pipeline, c_int64(FOREVER), byref(borrowed))
    borrowed[0].dims[0] = 0
    with pytest.raises(CError, match="push_acquired: input 'x'") as raised:
        library.call("push_acquired", pipeline, None, None)
    assert ("input", b"x") in raised.value.places
    library.c.penstock_free(pipeline)


def test_a_push_behind_the_first_error_names_its_stage_frame_and_node(library: Library, tmp_path: Path) -> None:
    import onnx

    graph = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }'
    )
    graph.graph.node[0].name = "pick"
    onnx.save(graph, tmp_path / "pick.onnx")
    # One replica: of several, that of frame 1 may be the first to fail.
    penstock.split(tmp_path / "pick.onnx", replicas=1, output=tmp_path / "pick").shut_down()
    pipeline = library.load(tmp_path / "pick", on_error="stop")
    x, kept = tensor_of(np.ones(3, np.float32))
    position = np.array([9], np.int64)
    i = Tensor(7, 1, (c_int64 * 1)(1), position.ctypes.data, position.nbytes)
    with pytest.raises(CError, match="the pipeline stopped at its first error: stage ") as raised:
        while True:
            library.call("push", pipeline, (Tensor * 2)(x, i), c_size_t(2), None, None)
    del kept
    assert raised.value.code == "cancelled"
    assert [place for place in raised.value.places if place[0] in ("stage", "frame", "node")] == [
        ("stage", b"stage0"),
        ("frame", 0),
        ("node", b"pick"),
    ]
    library.c.penstock_free(pipeline)


@pytest.fixture
def sums(library: Library, tmp_path: Path) -> Iterator[c_void_p]:
    """y = x + s, which the next frame of the stream reads as s."""
    import onnx

    graph = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] s) => (float[2] y, float[2] t)'
        " { y = Add(x, s) t = Identity(y) }"
    )
    onnx.save(graph, tmp_path / "sum.onnx")
    penstock.split(tmp_path / "sum.onnx", states={"t": "s"}, output=tmp_path / "sum.penstock").shut_down()
    pipeline = library.load(tmp_path / "sum.penstock", streams="2")
    yield pipeline
    library.c.penstock_free(pipeline)


def test_streams_have_states_that_are_saved_and_restored(library: Library, sums: c_void_p) -> None:
    def next_sum(stream: int) -> float:
        library.push(sums, np.ones(2, np.float32), stream)
        return float(library.pop(sums)[0])

    assert [next_sum(0), next_sum(0), next_sum(5)] == [1, 2, 1]
    states, value = c_void_p(), Tensor()
    library.call("save_stream", sums, c_uint64(0), byref(states))
    assert library.c.penstock_states_count(states) == 1
    assert library.c.penstock_states_name(states, c_size_t(0)) == b"s"
    library.call("states_tensor", states, c_size_t(0), byref(value))
    assert array_of(value).tolist() == [2, 2]
    names = (c_char_p * 1)(b"s")
    library.call("restore_stream", sums, c_uint64(5), names, byref(value), c_size_t(1))
    library.c.penstock_states_free(states)
    assert next_sum(5) == 3
    library.call("reset_stream", sums, c_uint64(5))
    assert next_sum(5) == 1
    with pytest.raises(CError, match="stream 6") as raised:
        library.push(sums, np.ones(2, np.float32), 6)
    assert raised.value.code == "resource_exhausted"
    library.call("end_stream", sums, c_uint64(5))
    assert next_sum(6) == 1
    with pytest.raises(CError, match="NULL"):
        library.call("restore_stream", sums, c_uint64(0), None, byref(value), c_size_t(1))


def test_texts_go_through(library: Library, tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Transpose", ["x"], ["y"], name="t")],
        "strings",
        [value("x", TensorProto.STRING, [2, 3])],
        [value("y", TensorProto.STRING, [3, 2])],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    pipeline = library.load(tmp_path / "m.onnx")
    texts = np.array([["a", "béta", ""], ["d", "e", "f"]], dtype=object)
    library.push(pipeline, texts)
    np.testing.assert_array_equal(library.pop(pipeline), texts.T)
    library.c.penstock_free(pipeline)


def descriptors_and_threads() -> tuple[int, int]:
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def test_starts_and_errors_leave_nothing_behind(library: Library, model: Path, tmp_path: Path) -> None:
    penstock.split(model, cuts=["increment"], output=tmp_path / "line.penstock").shut_down()

    def once() -> None:
        pipeline = library.load(tmp_path / "line.penstock")
        library.push(pipeline, frame(1))
        with pytest.raises(CError):
            library.push(pipeline, np.ones(3, np.float32))
        library.c.penstock_free(pipeline)  # With a frame in flight.

    once()
    before = descriptors_and_threads()
    for _ in range(20):
        once()
    end = time.monotonic() + 60  # A thread that was joined is listed for a moment more.
    while any(now > then for now, then in zip(descriptors_and_threads(), before, strict=True)):
        assert time.monotonic() < end, (descriptors_and_threads(), before)


def test_callbacks_reach_python_in_order(library: Library, model: Path) -> None:
    kind = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)
    tags: list[int] = []
    all_there = threading.Event()
    library.c.penstock_result_tag.restype = c_uint64

    def done(_: object, result: int) -> None:
        tags.append(library.c.penstock_result_tag(c_void_p(result)))
        library.c.penstock_result_free(c_void_p(result))
        if len(tags) == 5:
            all_there.set()

    class Options(ctypes.Structure):
        _fields_ = (
            ("size", c_size_t),
            ("tag", c_uint64),
            ("stream", c_uint64),
            ("timeout_ns", c_int64),
            ("within_ns", c_int64),
            ("high", c_int32),
            ("unordered", c_int32),
            ("release", c_void_p),
            ("release_context", c_void_p),
            ("done", kind),
            ("done_context", c_void_p),
        )

    callback: Callable[..., None] = kind(done)
    pipeline = library.load(model)
    given, kept = tensor_of(frame(1))
    for tag in range(5):
        options = Options(size=ctypes.sizeof(Options), tag=tag, timeout_ns=FOREVER, done=callback)
        library.call("push", pipeline, byref(given), c_size_t(1), byref(options), None)
    del kept
    assert all_there.wait(60)
    library.c.penstock_free(pipeline)
    assert tags == [0, 1, 2, 3, 4]
