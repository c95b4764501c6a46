"""What the process may do to a pipeline: signals, its end, the garbage collector, forks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock

Run = Callable[..., str]
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", ""))

START = """
import faulthandler, os, signal, sys, threading, time
import numpy as np, penstock
faulthandler.dump_traceback_later(280, exit=True)
x = np.zeros((1, 4), np.float32)
pipeline = penstock.split(sys.argv[1], cuts=["increment"], capacity=4)
def interrupt_soon():
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
"""


@pytest.mark.parametrize(
    "wait",
    [
        "pipeline.pop(None)",
        "[pipeline.push(x, None) for _ in range(100)]",
        "pipeline.submit(x).result(); pipeline.pop(None)",
        "[None for _ in pipeline.stream(x for _ in iter(int, 1))]",
        "[None for _ in pipeline.stream((time.sleep(0.05) or x for _ in iter(int, 1)), threaded=True)]",
        "[pipeline.run(None, x) for _ in iter(int, 1)]",
    ],
    ids=["pop", "push", "submit", "stream", "threaded", "run"],
)
def test_ctrl_c_ends_every_wait(run_script: Run, model: Path, wait: str) -> None:
    text = START + f"try:\n    interrupt_soon()\n    {wait}\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    assert "interrupted" in run_script(text, model)


def test_a_named_place_without_plugins_is_warned_of_once(run_script: Run, model: Path, tmp_path: Path) -> None:
    text = """
import os, sys, warnings
import penstock
warnings.simplefilter("always")
os.environ["PENSTOCK_PLUGIN_PATH"] = sys.argv[2]
with warnings.catch_warnings(record=True) as met:
    for _ in range(2):
        penstock.split(sys.argv[1]).shut_down()
print([(warned.category.__name__, str(warned.message)) for warned in met])
"""
    told = f"PENSTOCK_PLUGIN_PATH: '{tmp_path}': no plugin in this folder: expected libpenstock_backend_*.so"
    assert run_script(text, model, tmp_path).strip() == str([("PenstockWarning", told)])


def test_run_is_right_after_an_interrupted_run(run_script: Run, model: Path) -> None:
    text = """
class Stop(Exception): pass
def stop(*_): raise Stop
signal.signal(signal.SIGALRM, stop)
wrong = 0
for i in range(150):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001 + i % 20 * 0.00001)
        while True:
            pipeline.run(None, np.full((1, 4), 7 * i, np.float32))
    except Stop:
        pass
    wrong += pipeline.run(None, np.full((1, 4), i, np.float32))[0][0, 0] != (2 * i + 1) ** 2
print("wrong", wrong)
"""
    assert "wrong 0" in run_script(START + text, model)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "[pipeline.try_push(x) for _ in range(9)]",
        "held = [pipeline.run(None, x) for _ in range(9)]",
        "pipeline.submit(x)",
        "stream = pipeline.stream(x for _ in iter(int, 1)); next(stream)",
        "stream = pipeline.stream((x for _ in iter(int, 1)), threaded=True); next(stream)",
        "threading.Thread(target=pipeline.pop, args=(None,), daemon=True).start(); time.sleep(0.2)",
        "threading.Thread(target=list, args=[pipeline.stream(x for _ in iter(int, 1))], daemon=True).start()",
        "import builtins; builtins.kept = pipeline, pipeline.submit(x)",
        "sys.exit(0)",
    ],
)
def test_the_process_ends_with_a_running_pipeline(run_script: Run, model: Path, before: str) -> None:
    run_script(START + before, model)


def test_a_pipeline_with_frames_in_flight_may_be_collected(run_script: Run, model: Path) -> None:
    text = """
import gc
for i in range(15):
    pipeline = penstock.split(sys.argv[1], cuts=["increment"])
    if i % 3 == 0: pipeline.push(x, tag=pipeline)  # a cycle
    if i % 3 == 1: future = pipeline.submit(x)
    if i % 3 == 2: stream = pipeline.stream([x] * 9); next(stream)
    held = pipeline.try_pop() if i % 3 == 0 else None
    del pipeline
    gc.collect()
print("future", future.result(60)["z"][0, 0])
stream = future = held = None
gc.collect()
deadline = time.monotonic() + 60
while threading.active_count() > 1 and time.monotonic() < deadline: time.sleep(0.01)
print("threads", threading.active_count(), len(os.listdir("/proc/self/task")))
"""
    out = run_script(START + text, model)
    assert "future 1.0" in out
    threads = out.split("threads ")[1].split()
    assert threads[0] == "1"
    assert int(threads[1]) < 10  # faulthandler's, OpenBLAS's


def test_results_outlive_the_pipeline(run_script: Run, model: Path) -> None:
    text = """
pipeline.push(np.full((1, 4), 3, np.float32))
result = pipeline.pop()
array = pipeline.run(None, x)[0]
pipeline.shut_down()
del pipeline
print(result["z"][0, 0], array[0, 0])
"""
    assert "49.0 1.0" in run_script(START + text, model)


def test_a_forked_child_is_refused_with_a_sentence(run_script: Run, model: Path) -> None:
    text = """
pipeline.push(x)
held = pipeline.pop()
pipeline.submit(x).result()
faulthandler.cancel_dump_traceback_later()  # Its own thread would not be in the child either.
child = os.fork()
if child == 0:
    calls = (
        lambda: pipeline.run(None, x), lambda: pipeline.push(x), lambda: pipeline.pop(),
        lambda: pipeline.submit(x), lambda: next(pipeline.stream([x])), lambda: pipeline.stats(),
        lambda: pipeline.close(), lambda: pipeline.drain(),
    )
    for call in calls:
        try:
            call()
        except penstock.FailedPrecondition as error:
            assert f"and this is process {os.getpid()}, forked from it: threads do not survive a fork" in str(error)
        else:
            os._exit(1)
    assert not pipeline.alive
    assert held["z"][0, 0] == 1
    held = None
    own = penstock.split(sys.argv[1])
    assert own.run(None, x)[0][0, 0] == 1
    del pipeline
    sys.exit(7)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print("parent", pipeline.run(None, x)[0][0, 0])
"""
    out = run_script(START + text, model)
    assert "child 7" in out
    assert "parent 1.0" in out


HANGING_LIBRARY = """
#include <signal.h>
#include <unistd.h>
#include "penstock/function/penstock_function.h"
static const penstock_port kPort = {"x", PENSTOCK_F32, 0, NULL};
static int32_t create(const penstock_option* o, size_t n, void** state, char* message, size_t bytes) {
  kill(getpid(), SIGINT);
  for (;;) pause();
}
static int32_t run(void* state, penstock_frame* frame) { return PENSTOCK_OK; }
static const penstock_function kHangs = {"hangs", 0, 1, &kPort, 1, &kPort, create, NULL, run};
const penstock_library* penstock_functions(void) {
  static const penstock_library library = {PENSTOCK_FUNCTION_VERSION, 1, &kHangs};
  return &library;
}
__attribute__((destructor)) static void end(void) { write(1, "destroyed\\n", 10); }
"""


@pytest.mark.sweep(of=3)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_the_process_ends_without_a_start_that_hangs_after_ctrl_c(run_script: Run, tmp_path: Path) -> None:
    source, library = tmp_path / "hangs.c", tmp_path / "libhangs.so"
    source.write_text(HANGING_LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{penstock.include_dir()}", source, "-o", library], check=True)
    (tmp_path / "app.yaml").write_text(
        "penstock_app: 1\ninputs: {x: 'f32[]'}\nnodes: {f: {function: ./libhangs.so, inputs: {x: x}}}\n"
        "outputs: {y: f.x}\n"
    )
    text = """
import os, sys, penstock
os.dup2(1, 2)
try:
    penstock.App.read(sys.argv[1]).start()
except KeyboardInterrupt:
    print("interrupted", flush=True)
child = os.fork()
if child == 0: sys.exit(7)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sys.exit(8)
"""
    out = run_script(text, tmp_path / "app.yaml", code=8)
    assert "interrupted\n" in out
    child, parent = out.split("child 7\n")
    assert parent.count("PenstockWarning: a call that Ctrl-C interrupted still runs; the process ends without it") == 1
    assert "destroyed" in child
    assert "destroyed" not in parent  # The thread goes on to use the library.


def test_ctrl_c_ends_a_long_split(run_script: Run, model: Path) -> None:
    text = """
from penstock import _core
real = penstock.plan
try:
    interrupt_soon()
    while True:
        penstock.plan(sys.argv[1]).shut_down()
except KeyboardInterrupt:
    print("interrupted")
"""
    assert "interrupted" in run_script(START + text, model)


@pytest.mark.skipif(not (MODELS / "mobilenet_v2_int8").is_dir(), reason="PENSTOCK_TEST_MODELS names no networks")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU is soon planned for")
def test_ctrl_c_ends_the_search_of_a_plan(run_script: Run, model: Path) -> None:
    text = """
try:
    interrupt_soon()
    penstock.plan(sys.argv[2], segments_per_device=4, deadline=1000)  # Ended by START before.
except KeyboardInterrupt:
    print("interrupted")
"""
    assert "interrupted" in run_script(START + text, model, MODELS / "mobilenet_v2_int8/model.onnx")


def test_a_program_may_leave_standard_input_early(model: Path) -> None:
    text = """
import sys, penstock
with penstock.split(sys.argv[1]) as pipeline:
    for frame in pipeline.stream(penstock.io.raw((1, 4), "float32")):
        print(frame["z"][0, 0], flush=True)
        break
"""
    command = [sys.executable, "-c", text, str(model)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin and process.stderr
        process.stdin.write(bytes(16))
        process.stdin.flush()  # And stays open.
        assert process.wait(timeout=60) == 0, process.stderr.read()


def test_many_pipelines_leave_nothing(run_script: Run, model: Path) -> None:
    text = """
import resource
for i in range(80):
    with penstock.split(sys.argv[1]) as one:
        one.run(None, x)
    if i == 30: before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print("grown", grown)
"""
    assert int(run_script(START + text, model).split("grown ")[1]) < 20_000
