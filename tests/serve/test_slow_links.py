"""Stages behind a link that is slow: their frames are late, and nobody is taken for lost."""

import json
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from onnx import helper
from servers import SECONDS, Server, find_program, save, split, value

FLOATS = 100_000  # Of a frame: 400 kB.
FRAMES = 20
RATE = 1_000_000  # Bytes a second: what is in flight takes far longer than a peer's patience.


class SlowLink:
    """A proxy that sends on so many bytes a second, whichever connections they are of."""

    def __init__(self, server: str) -> None:
        host, port = server.rsplit(":", 1)
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
        try:
            while piece := one.recv(16384):
                with self.turn:
                    time.sleep(len(piece) / RATE)
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            other.close()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """out: the mean of a large frame."""
    mean = helper.make_node("ReduceMean", ["frame"], ["out"], keepdims=1)
    return save(tmp_path / "mean.onnx", [mean], [value("frame", [FLOATS])], [value("out", [1])])


def outcomes(what: Path) -> list[dict]:
    command = [str(find_program()), "run", str(what), "--frames", str(FRAMES), "--output", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_worker_behind_a_slow_link_loses_no_frame(tmp_path, model):
    worker = Server("--cache", str(tmp_path / "cache"), command="worker")
    link = SlowLink(worker.address)
    answers = outcomes(split(model, "--devices", f"{link.address}/cpu:0"))
    assert [list(answer.get("outputs", answer)) for answer in answers] == [["out"]] * FRAMES
    assert worker.end() == 0


def test_a_server_behind_a_slow_link_loses_no_frame(tmp_path, model):
    server = Server(str(model))
    link = SlowLink(server.address)
    app = tmp_path / "app.yaml"
    app.write_text(
        f"penstock_app: 1\ninputs: {{frame: 'f32[{FLOATS}]'}}\n"
        f"nodes: {{far: {{model: 'oip://{link.address}/mean', inputs: {{frame: frame}}}}}}\noutputs: {{out: far.out}}\n"
    )
    assert [list(answer.get("outputs", answer)) for answer in outcomes(app)] == [["out"]] * FRAMES
    assert server.end() == 0
