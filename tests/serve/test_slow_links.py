"""Stages behind a link that is slow: their frames are late, and nobody is taken for lost."""

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from servers import SECONDS, Server, find_program, save, split, value

FLOATS = 100_000  # Of a frame: 400 kB.
FRAMES = 20
RATE = 1_000_000  # Bytes a second: what is in flight takes far longer than a peer's patience.


class SlowLink:
    """A proxy that sends on so many bytes a second, whichever connections they are of, or of each."""

    def __init__(self, server: str, rate: int = RATE, each: bool = False) -> None:
        host, port = server.rsplit(":", 1)
        self.rate = rate
        self.each = each
        self.server = (host, int(port))
        self.turn = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near = self.listener.accept()[0]
            far = socket.create_connection(self.server)
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        turn = threading.Lock() if self.each else self.turn
        try:
            while piece := one.recv(16384):
                with turn:
                    time.sleep(len(piece) / self.rate)
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            other.close()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """out: the mean of a large frame."""
    mean = helper.make_node("ReduceMean", ["frame"], ["out"], keepdims=1)
    return save(tmp_path / "mean.onnx", [mean], [value("frame", [FLOATS])], [value("out", [1])])


@pytest.fixture
def server(model: Path) -> Iterator[Server]:
    started = Server(str(model))
    yield started
    started.process.kill()
    started.process.wait()


def outcomes(what: Path, frames: int = FRAMES) -> list[dict]:
    command = [str(find_program()), "run", str(what), "--frames", str(frames), "--output", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_worker_behind_a_slow_link_loses_no_frame(worker, model):
    started = worker()
    link = SlowLink(started.address)
    answers = outcomes(split(model, "--devices", f"{link.address}/cpu:0"))
    assert [list(answer.get("outputs", answer)) for answer in answers] == [["out"]] * FRAMES
    assert started.end() == 0


def test_a_server_behind_a_slow_link_loses_no_frame(tmp_path, server):
    link = SlowLink(server.address)
    app = tmp_path / "app.yaml"
    app.write_text(
        f"penstock_app: 1\ninputs: {{frame: 'f32[{FLOATS}]'}}\n"
        f"nodes: {{far: {{model: 'oip://{link.address}/mean', inputs: {{frame: frame}}}}}}\noutputs: {{out: far.out}}\n"
    )
    assert [list(answer.get("outputs", answer)) for answer in outcomes(app)] == [["out"]] * FRAMES
    assert server.end() == 0


def test_a_tensor_of_a_worker_behind_a_slow_link_is_waited_for_while_it_comes(tmp_path, worker):
    """It is read on another worker and here, and takes far longer than the patience."""
    nodes = [
        helper.make_node("Mul", ["frame", "ones"], ["middle"]),
        helper.make_node("ReduceMax", ["middle"], ["left"], axes=[0], keepdims=1),
        helper.make_node("ReduceMin", ["middle"], ["right"], axes=[0], keepdims=1),
        helper.make_node("Add", ["left", "right"], ["out"]),
    ]
    ones = np.ones(200_000, np.float32)
    file = save(tmp_path / "wide.onnx", nodes, [value("frame", [1])], [value("out", [1])], ones=ones)
    first, second = worker(), worker()
    link = SlowLink(first.address, rate=400_000, each=True)
    devices = f"{link.address}/cpu:0,{second.address}/cpu:0,cpu:0"
    answers = outcomes(split(file, "--cut", "middle", "--cut", "left", "--devices", devices), frames=2)
    assert [list(answer.get("outputs", answer)) for answer in answers] == [["out"]] * 2, answers
    assert [one.end() for one in (first, second)] == [0, 0]
