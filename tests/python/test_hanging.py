"""Functions that hang, in pipelines without max_run_ms: whatever ends the pipeline, ends."""

from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., str]

START = """
import faulthandler, gc, os, signal, sys, threading, time, weakref
import numpy as np, penstock
faulthandler.dump_traceback_later(100, exit=True)  # A guard: exit code 1.
os.dup2(1, 2)
x = np.zeros(1, np.float32)
inside, go_on = threading.Event(), threading.Event()
def sleeps(x):
    inside.set()
    go_on.wait()
    return x
def spins(x):
    inside.set()
    while True: pass
def start(call, **options):
    app = penstock.App()
    app.input("x")
    app.function("busy", call, {"x": "f32[1]"}, {"y": "f32[1]"}, reads="x", **options)
    app.output("y", "busy.y")
    return app.start()
def hanging(call):
    inside.clear()
    pipeline = start(call)
    pipeline.push(x)
    inside.wait()
    return pipeline
def interrupt_while_ending(core):
    def interrupt():
        while core.alive: time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()
"""

ENDINGS = {
    "exit": "",
    "sys.exit": "sys.exit(0)",
    "garbage": """
pipeline.itself = pipeline
gone = weakref.ref(pipeline)
del pipeline
gc.collect()
print("ended", gone())
""",
    "exception": """
try:
    with pipeline: raise LookupError("mine")
except LookupError as error:
    print("ended", error)
""",
    "ctrl-c": """
interrupt_while_ending(pipeline._core)
try:
    pipeline.shut_down()
except KeyboardInterrupt:
    print("ended")
""",
    "ctrl-c in del": """
interrupt_while_ending(pipeline._core)
del pipeline
print("ended")  # As ever, Python shows what is raised in a __del__, and goes on.
""",
    "ctrl-c at exit": "interrupt_while_ending(pipeline._core)",
    "shut_down": "pipeline.close(); pipeline.shut_down(); print('ended')",
}


@pytest.mark.parametrize("call", ["sleeps", "spins"])
@pytest.mark.parametrize("how", ENDINGS)
def test_the_end_leaves_a_call_that_hangs_behind(
    run_script: Run, how: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    out = run_script(START + f"pipeline = hanging({call})\n" + ENDINGS[how], seconds=120)
    assert out.count("PenstockWarning: stage 'busy': frame 0: the call has run for ") == 1
    assert "the pipeline ends without it, and leaves its thread behind; with max_run_ms=" in out
    assert ("ended" in out) == ("ended" in ENDINGS[how])
    assert list(tmp_path.iterdir()) == []


def test_several_pipelines_that_hang(run_script: Run) -> None:
    text = "pipelines = [hanging(sleeps) for _ in range(40)]\ninterrupt_while_ending(pipelines[0]._core)\n"
    out = run_script(START + text, seconds=120)
    assert out.count("PenstockWarning: stage 'busy'") == 40


def test_who_waits_for_frames_of_a_call_that_hangs_gets_them_cancelled(run_script: Run) -> None:
    text = """
pipeline = start(sleeps)
future = pipeline.submit(x)
inside.wait()
pipeline.shut_down()
print("future", repr(future.exception()))
pipeline = hanging(sleeps)
popped = []
popper = threading.Thread(target=lambda: popped.append(pipeline.pop(None)))
popper.start()
pipeline.shut_down()
popper.join()
print("popped", popped[0].outcome)
"""
    out = run_script(START + text, seconds=120)
    assert "future Cancelled('the pipeline " in out
    assert "popped cancelled" in out


def test_a_call_that_comes_back_later_does_no_harm(run_script: Run) -> None:
    text = """
pipeline = hanging(sleeps)
interrupt_while_ending(pipeline._core)
try:
    pipeline.shut_down()
except KeyboardInterrupt:
    pass
threads = len(os.listdir("/proc/self/task"))
go_on.set()
while len(os.listdir("/proc/self/task")) >= threads: time.sleep(0.001)
with start(sleeps) as other:
    print("ran", other(x)[0][0])
"""
    assert "ran 0.0" in run_script(START + text, seconds=120)


def test_a_call_that_hangs_is_named_with_the_option_of_python(run_script: Run) -> None:
    text = """
pipeline = start(sleeps, max_run_ms=20)
pipeline.push(x)
print(pipeline.pop(None).error)
"""
    out = run_script(START + text, seconds=120)
    assert "at most 20 ms allowed (max_run_ms)" in out
    assert "left behind" not in out


def test_a_wait_for_the_interpreter_is_not_the_calls_own(run_script: Run) -> None:
    text = """
import ctypes, subprocess
hangs = "p = start(sleeps, max_run_ms=500); p.push(x); print(p.pop().error, flush=True); os._exit(0)"
child = subprocess.Popen([sys.executable, "-c", sys.argv[1] + hangs], stdout=subprocess.PIPE)
pipeline = start(lambda x: x + 1, max_run_ms=500)
sys.setswitchinterval(1e6)  # Nobody else gets the lock before this thread lets it go.
pipeline.push(x)
told = ctypes.create_string_buffer(1)
assert ctypes.PyDLL(None).read(child.stdout.fileno(), told, 1) == 1  # Keeps it, until another's call has hung.
frame = pipeline.pop()
print(frame.outcome, frame.error)
"""
    assert run_script(START + text, START) == "ok None\n"


def test_a_call_that_is_only_slow_is_waited_for(run_script: Run) -> None:
    text = """
ended = []
def slow(x):
    inside.set()
    time.sleep(0.3)
    ended.append(True)
    return x
hanging(slow).shut_down()
print("ended", ended)
"""
    out = run_script(START + text, seconds=120)
    assert "ended [True]" in out
    assert "left behind" not in out
