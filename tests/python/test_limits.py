"""Limits of threads and memory: what does not fit is an error, and the process goes on."""

from collections.abc import Callable
from pathlib import Path

import pytest

import penstock

Run = Callable[..., str]

# While it is in force no thread can be made, for root neither: none has room for its stack.
START = """
import contextlib, ctypes, faulthandler, os, sys, threading, weakref
import numpy as np, penstock
faulthandler.dump_traceback_later(45, exit=True)
x = np.zeros((1, 4), np.float32)
libc = ctypes.CDLL(None)
@contextlib.contextmanager
def no_more_threads():
    before, huge = (ctypes.create_string_buffer(64) for _ in range(2))  # sizeof(pthread_attr_t) is 56.
    for attributes in before, huge:
        assert libc.pthread_getattr_default_np(attributes) == 0
    assert libc.pthread_attr_setstacksize(huge, ctypes.c_size_t(1 << 46)) == 0
    assert libc.pthread_setattr_default_np(huge) == 0
    try:
        yield
    finally:
        assert libc.pthread_setattr_default_np(before) == 0
def told(call):
    try:
        with no_more_threads():
            call()
    except penstock.ResourceExhausted as error:
        print(error)
    else:
        print("not refused")
"""


def check_refused(out: str) -> None:
    assert out.startswith("no thread could be started: "), out
    assert out.endswith("; raise the limit of threads (ulimit -u), or run less at once\n"), out
    assert out.count("\n") == 1


def test_a_pipeline_without_a_thread_to_be_made_on_is_refused(run_script: Run, model: Path) -> None:
    text = """
told(lambda: penstock.split(sys.argv[1]))
assert penstock.split(sys.argv[1]).run(None, x)[0][0, 0] == 1
"""
    check_refused(run_script(START + text, model))


@pytest.mark.parametrize(
    "call",
    [
        "pipeline.submit(x)",
        "next(pipeline.stream([x], threaded=True))",
        "next(iter(penstock.io.latest([x])))",
    ],
)
def test_a_thread_of_the_packages_own_that_is_refused_is_an_error(run_script: Run, model: Path, call: str) -> None:
    text = f"""
with penstock.split(sys.argv[1]) as pipeline:
    told(lambda: {call})
    assert pipeline.submit(x).result()["z"][0, 0] == 1
"""
    check_refused(run_script(START + text, model))


def test_a_pipeline_that_its_function_lets_go_ends_without_a_thread_of_its_own(run_script: Run) -> None:
    text = """
box, gone = [], threading.Event()
def call(x):
    box.clear()
    gone.set()
    return x
app = penstock.App()
app.input("x")
app.function("f", call, {"x": "f32[1,4]"}, {"y": "f32[1,4]"}, reads="x")
app.output("y", "f.y")
box.append(app.start())
core = weakref.ref(box[0]._core)
with no_more_threads():
    box[0].push(x)
    assert gone.wait(20)
    while core() is not None: pass
print("let go")
"""
    assert run_script(START + text) == "let go\n"


@pytest.mark.parametrize("mebibytes", [0, 9, 16, 33, 45, 64, 96, 112, 128, 160, 256, 384, 512])
def test_a_limit_of_memory_is_an_error_or_enough(
    run_script: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mebibytes: int
) -> None:
    package = tmp_path / "line.penstock"
    penstock.split(model, output=package).shut_down()
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")  # numpy's own threads take memory for each CPU.
    text = """
import resource, sys
import numpy as np, penstock
x = np.zeros((1, 4), np.float32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
_, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[2]) * 2**20, hard))
try:
    with penstock.load(sys.argv[1]) as pipeline:
        for _ in range(20):
            assert pipeline.run(None, x)[0][0, 0] == 1
except (penstock.PenstockError, MemoryError) as error:
    print(type(error).__name__)
else:
    print("ran")
"""
    assert run_script(text, package, str(mebibytes)) in (
        "ran\n",
        "ResourceExhausted\n",
        "Unavailable\n",
        "MemoryError\n",
    )
