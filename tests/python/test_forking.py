"""Calls of other machines, and serving, in a process that was forked."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from built_program import find_program

Run = Callable[..., str]

START = """
import contextlib, os, signal, sys
import numpy as np, penstock
model, server, worker = sys.argv[1:]
x = np.zeros((1, 4), np.float32)

@contextlib.contextmanager
def connect():
    with penstock.connect(server, "m") as pipeline:
        assert pipeline.run(None, x)[0][0, 0] == 1
        yield

@contextlib.contextmanager
def stage():
    with penstock.split(model, devices=f"{worker}/cpu:0") as pipeline:
        assert pipeline.run(None, x)[0][0, 0] == 1
        yield

@contextlib.contextmanager
def serve():
    with penstock.serve({"m": model}, listen="127.0.0.1:0") as serving:
        with penstock.connect(serving.grpc, "m") as pipeline:
            assert pipeline.run(None, x)[0][0, 0] == 1
        yield

def fork(use):
    sys.stdout.flush()
    child = os.fork()
    if child != 0:
        print(use.__name__, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return
    signal.alarm(60)  # Ends a child that hangs.
    try:
        with use(): pass
        os._exit(7)
    except penstock.FailedPrecondition as error:
        assert f"this process was forked from process {os.getppid()} after that had used gRPC" in str(error), error
        os._exit(8)
    except BaseException as error:
        print(type(error), error, flush=True)
        os._exit(9)
"""


@pytest.fixture(scope="module")
def places(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The addresses of a server and of a worker."""
    cache = tmp_path_factory.mktemp("cache")
    commands = [["serve", f"m={model}"], ["worker", "--cache", str(cache)]]
    running, addresses = [], []
    try:
        for command in commands:
            line = [str(find_program()), *command, "--listen", "127.0.0.1:0"]
            running.append(subprocess.Popen(line, stdout=subprocess.PIPE, text=True))
            told = next(line for line in running[-1].stdout or [] if "gRPC on" in line)
            addresses.append(told.split()[-1])
        yield addresses
    finally:
        for process in running:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("use", ["connect", "serve", "stage"])
def test_a_child_of_who_uses_grpc_is_refused_with_a_sentence(
    run_script: Run, model: Path, places: list[str], use: str
) -> None:
    text = f"with {use}():\n    for each in (connect, serve, stage): fork(each)\nfork(connect)\nwith connect(): pass"
    assert run_script(START + text, model, *places) == "connect 8\nserve 8\nstage 8\nconnect 8\n"


def test_a_child_of_who_used_nothing_may_do_all(run_script: Run, model: Path, places: list[str]) -> None:
    text = """
for each in (connect, serve, stage): fork(each)
for each in (connect, serve, stage):
    with each(): pass
"""
    assert run_script(START + text, model, *places) == "connect 7\nserve 7\nstage 7\n"
