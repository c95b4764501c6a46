"""Stages at servers of others: MLServer, and Triton as the wheel of nvidia-pytriton brings it."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from other_servers import PYTHON, SERVERS
from servers import SECONDS, find_program

APP = """
penstock_app: 1
inputs: {frame: 'f32[1,2]'}
nodes: {far: {model: 'oip://ADDRESS/twice', inputs: {x: frame}}}
outputs: {out: far.y}
"""


class Other:
    """A server of others, by its address."""

    def __init__(self, name: str, address: str, folder: Path) -> None:
        self.name, self.app = name, folder / "app.yaml"
        self.app.write_text(APP.replace("ADDRESS", address))

    def run(self, frames: int, calls: str = "either") -> subprocess.CompletedProcess:
        """Frame n is n, n."""
        command = [find_program(), "run", self.app, "--input", "frame=-", "--output", "-"]
        values = np.repeat(np.arange(frames, dtype=np.float32), 2).tobytes()
        environment = {**os.environ, "PENSTOCK_REMOTE_CALLS": calls}
        return subprocess.run(command, input=values, capture_output=True, timeout=SECONDS, env=environment)


@pytest.fixture(scope="module", params=list(SERVERS))
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Other]:
    if not PYTHON.exists():
        pytest.skip("no .servers: run script/setup --tests")
    folder = tmp_path_factory.mktemp(request.param)
    with SERVERS[request.param](folder) as address:
        started = Other(request.param, address, folder)
        end = time.monotonic() + SECONDS
        while (tried := started.run(1)).returncode != 0:  # It may listen before it has its model.
            assert time.monotonic() < end, tried.stderr
            time.sleep(0.2)
        yield started


@pytest.mark.sweep(of=3)
@pytest.mark.parametrize("calls", ["either", "unary"])
def test_frames_are_computed_there_and_one_that_fails_ends_no_other(other: Other, calls: str) -> None:
    done = other.run(60, calls)
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert [frame["frame"] for frame in frames] == list(range(60)), done.stderr
    failed = frames.pop(13)
    assert "no thirteen" in failed["error"]["message"]
    assert frames == [{"frame": n, "outputs": {"out": [[2.0 * n] * 2]}} for n in range(60) if n != 13]


def test_a_stream_of_requests_is_used_where_the_server_has_one(other: Other) -> None:
    done = other.run(5, "stream")
    if other.name == "triton":
        assert len(done.stdout.splitlines()) == 5, done.stderr
    else:  # Its stream answers nothing but the first request.
        assert "option 'calls' is stream, but the server does not answer requests in a stream" in done.stderr.decode()
