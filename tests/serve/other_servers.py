"""Servers of others with the model "twice": y = 2 x, f32[1,2], which fails where 13 is in x."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from servers import ROOT, SECONDS

sys.path.append(str(ROOT / "tools"))
from local_hosts import free_port  # noqa: E402

PYTHON = ROOT / ".servers/bin/python"

TWICE = """
import numpy as np
def twice(x):
    if (x == 13).any():
        raise ValueError("no thirteen")
    return np.float32(2) * x
"""

MLSERVER = """
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse, MetadataTensor
from twice import twice
class Twice(MLModel):
    async def load(self):
        self.inputs = [MetadataTensor(name="x", datatype="FP32", shape=[1, 2])]
        self.outputs = [MetadataTensor(name="y", datatype="FP32", shape=[1, 2])]
        return True
    async def predict(self, payload):
        made = twice(NumpyCodec.decode_input(payload.inputs[0]))
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("y", made)])
"""

TRITON = """
import signal, sys, numpy as np
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig
from twice import twice
def infer(requests):
    return [{"y": twice(request.data["x"])} for request in requests]
grpc, http, metrics = map(int, sys.argv[1:])
about = lambda name: Tensor(name=name, dtype=np.float32, shape=(1, 2))
with Triton(config=TritonConfig(grpc_port=grpc, http_port=http, metrics_port=metrics)) as triton:
    triton.bind(model_name="twice", infer_func=infer, inputs=[about("x")], outputs=[about("y")],
                config=ModelConfig(batching=False))
    triton.run()
    signal.sigwait({signal.SIGTERM})
"""


@contextmanager
def started(command: list[str], port: int, folder: Path) -> Iterator[str]:
    """Until it listens; skips, with its last words, where it ends before."""
    (folder / "twice.py").write_text(TWICE)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        end = time.monotonic() + SECONDS
        while True:
            if process.poll() is not None or time.monotonic() > end:
                pytest.skip(f"{command[0]} does not start here: {(folder / 'log').read_text()[-300:]}")
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def mlserver(folder: Path) -> Iterator[str]:
    port = free_port()
    (folder / "runtime.py").write_text(MLSERVER)
    settings = {"host": "127.0.0.1", "http_port": free_port(), "grpc_port": port, "metrics_port": free_port()}
    (folder / "settings.json").write_text(json.dumps({**settings, "parallel_workers": 0}))
    (folder / "model-settings.json").write_text(json.dumps({"name": "twice", "implementation": "runtime.Twice"}))
    with started([str(PYTHON.parent / "mlserver"), "start", "."], port, folder) as address:
        yield address


@contextmanager
def triton(folder: Path) -> Iterator[str]:
    port, *others = (free_port() for _ in range(3))
    (folder / "triton.py").write_text(TRITON)
    with started([str(PYTHON), "triton.py", *map(str, [port, *others])], port, folder) as address:
        yield address


SERVERS = {"mlserver": mlserver, "triton": triton}
