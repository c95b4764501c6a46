"""Functions that hang, in pipelines without max_run_ms: whatever ends the pipeline, ends."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

Run = Callable[..., str]

START = """
import faulthandler, gc, os, signal, sys, threading, time, weakref
import numpy as np, penstock
faulthandler.dump_traceback_later(280, exit=True)  # A guard: exit code 1.
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
def start(call, max_left_behind=None, **options):
    app = penstock.App()
    app.input("x")
    app.function("busy", call, {"x": "f32[1]"}, {"y": "f32[1]"}, reads="x", **options)
    app.output("y", "busy.y")
    return app.start(max_left_behind=max_left_behind)
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

CALLS = ("sleeps", "spins")
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
    pipeline.shut_down(timeout=None)
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


CANCELLED_SUBMIT = """
pipeline = start(sleeps)
future = pipeline.submit(x)
inside.wait()
pipeline.shut_down()
print("future", repr(future.exception()))
"""
CANCELLED_POP = """
pipeline = hanging(sleeps)
popped = []
popper = threading.Thread(target=lambda: popped.append(pipeline.pop(None)))
popper.start()
pipeline.shut_down()
popper.join()
print("popped", popped[0].outcome)
"""
# What ends only after the five seconds for which a call that hangs is waited for.
WAITING = {
    **{f"{how} {call}": f"pipeline = hanging({call})\n" + end for how, end in ENDINGS.items() for call in CALLS},
    "submit": CANCELLED_SUBMIT,
    "pop": CANCELLED_POP,
    "several": """
import warnings
warnings.simplefilter("always")  # Two calls may have run for as long: Python tells the same words once.
pipelines = [hanging(sleeps) for _ in range(40)]
interrupt_while_ending(pipelines[0]._core)
""",
}


class Waiting(NamedTuple):
    process: subprocess.Popen[str]
    out: Path
    temporary: Path

    def end(self) -> str:
        """What the program printed, which must end by itself."""
        code = self.process.wait(300)
        text = self.out.read_text()
        assert code == 0, f"exit code {code}\n{text}"
        return text


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Waiting]]:
    """All programs of WAITING, at once: together they wait no longer than one. They take no CPU from other tests."""
    programs = {}
    folder = tmp_path_factory.mktemp("waiting")
    for name, text in WAITING.items():
        out, temporary = folder / f"{name}.out", folder / name
        temporary.mkdir()
        command = ["nice", "-n", "19", sys.executable, "-X", "faulthandler", "-c", START + text]
        with out.open("w") as file:
            environment = os.environ | {"TMPDIR": str(temporary)}
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, text=True, env=environment)
        programs[name] = Waiting(process, out, temporary)
    yield programs
    for program in programs.values():
        program.process.kill()
        program.process.wait()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", ENDINGS)
def test_the_end_leaves_a_call_that_hangs_behind(waiting: dict[str, Waiting], how: str, call: str) -> None:
    program = waiting[f"{how} {call}"]
    out = program.end()
    assert out.count("PenstockWarning: stage 'busy': frame 0: the call has run for ") == 1
    assert "the pipeline ends without it, and leaves its thread behind; with max_run_ms=" in out
    assert ("ended" in out) == ("ended" in ENDINGS[how])
    assert list(program.temporary.iterdir()) == []


def test_several_pipelines_that_hang(waiting: dict[str, Waiting]) -> None:
    assert waiting["several"].end().count("PenstockWarning: stage 'busy'") == 40


def test_who_waits_for_frames_of_a_call_that_hangs_gets_them_cancelled(waiting: dict[str, Waiting]) -> None:
    assert "future Cancelled('the pipeline " in waiting["submit"].end()
    assert "popped cancelled" in waiting["pop"].end()


def test_a_call_that_comes_back_later_does_no_harm(run_script: Run) -> None:
    text = """
pipeline = hanging(sleeps)
interrupt_while_ending(pipeline._core)
try:
    pipeline.shut_down(timeout=None)
except KeyboardInterrupt:
    pass
threads = len(os.listdir("/proc/self/task"))
go_on.set()
while len(os.listdir("/proc/self/task")) >= threads: time.sleep(0.001)
with start(sleeps) as other:
    print("ran", other(x)[0][0])
"""
    assert "ran 0.0" in run_script(START + text)


def test_a_call_that_hangs_is_named_with_the_option_of_python(run_script: Run) -> None:
    text = """
pipeline = start(sleeps, max_run_ms=20)
print("alive", pipeline.alive)
pipeline.push(x)
print(pipeline.pop(None).error)
print("alive", pipeline.alive, repr(pipeline))
"""
    out = run_script(START + text)
    assert "alive True" in out
    assert "alive False <penstock.Pipeline of 'app' (closed): " in out
    assert "at most 20 ms allowed (max_run_ms)" in out
    assert "left behind" not in out


def test_a_call_that_hangs_costs_its_frame_where_it_may_be_left_behind(run_script: Run) -> None:
    text = """
def call(x):
    if x[0] == 1: go_on.wait()
    return 2 * x
with start(call, max_run_ms=1000, max_left_behind=1) as pipeline:
    for i in range(8):
        pipeline.push(np.full(1, i, np.float32))
        frame = pipeline.pop(None)
        print(frame.outcome, frame.error if frame.error else frame[0][0], flush=True)
    print("alive", pipeline.alive)
"""
    lines = run_script(START + text).splitlines()
    assert "stage 'busy': frame 1: the call hangs: it has run for " in lines.pop(1)
    assert lines == [*(f"ok {2.0 * i}" for i in (0, 2, 3, 4, 5, 6, 7)), "alive True"]


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


def test_the_end_waits_for_a_call_as_long_as_it_is_told(run_script: Run) -> None:
    text = """
hanging(sleeps).shut_down(timeout=0)
print("left behind at once")
pipeline = hanging(sleeps)
calls = threading.Thread(target=pipeline.shut_down, args=(None,))
calls.start()
while not pipeline._core.ended: time.sleep(0.001)
go_on.set()
calls.join()
print("waited")
"""
    out = run_script(START + text)
    before, after = out.split("left behind at once")
    assert "and leaves its thread behind" in before
    assert after == "\nwaited\n"


CALLBACK = """
reached, after = threading.Event(), threading.Event()
def blocks(frame):
    reached.set()
    go_on.wait()
pipeline = start(lambda x: x)
pipeline.push(x, done=blocks)
reached.wait()
pipeline.push(x, done=lambda frame: (print("after", frame.outcome, flush=True), after.set()))
"""


def test_a_callback_that_blocks_is_left_behind(run_script: Run) -> None:
    text = """
pipeline.shut_down(timeout=0.05)
print("ended", flush=True)
go_on.set()
after.wait()
"""
    before, behind = run_script(START + CALLBACK + text).split("ended\n")
    assert "PenstockWarning: the callback of frame 0 goes on; the pipeline ends without it, and leaves its" in before
    assert "max_run_ms" not in before  # That is for calls of stages.
    assert behind.startswith("after ")


@pytest.mark.sweep(of=3)
def test_the_process_ends_though_a_callback_blocks(run_script: Run) -> None:
    assert "PenstockWarning: the callback of frame 0 goes on" in run_script(START + CALLBACK)


def test_a_wrong_time_for_the_end_ends_nothing(run_script: Run) -> None:
    text = """
with start(lambda x: x) as pipeline:
    for timeout in (-1, "soon"):
        try:
            pipeline.shut_down(timeout)
        except penstock.InvalidArgument as error:
            print(error)
    print("ran", pipeline(x)[0][0])
"""
    out = run_script(START + text)
    assert out.startswith(
        "timeout: expected 0 or more seconds or None, found -1\ntimeout: expected a number of seconds"
    )
    assert out.endswith("ran 0.0\n")


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
    out = run_script(START + text)
    assert "ended [True]" in out
    assert "left behind" not in out
