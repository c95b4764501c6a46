"""What the tests of this folder share: the program, servers of it, their clients, models and certificates."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from built_program import find_program
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / ".clients/bin/python"
SECONDS = 300  # After which a test has failed, however busy the machine is.


def value(name: str, dims: list, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def save(file: Path, nodes: list, inputs: list, outputs: list, **weights: np.ndarray) -> Path:
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, file.stem, inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


class Server:
    def __init__(
        self, *arguments: str, descriptors: int | None = None, listen: str = "127.0.0.1:0", command: str = "serve"
    ) -> None:
        bound = [] if descriptors is None else ["prlimit", f"--nofile={descriptors}"]
        line = [
            *bound,
            "env",
            "--default-signal=HUP",
            str(find_program()),
            command,
            "--listen",
            listen,
            *arguments,
        ]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self.address = self._address()
        self.errors: list[str] = []
        self.reader = threading.Thread(target=self._read_errors, daemon=True)
        self.reader.start()

    def _address(self) -> str:
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if found := re.fullmatch(r"penstock: gRPC on (\S+)", self.said[-1]):
                return found[1]
        raise AssertionError(self.process.stderr.read())

    def http_address(self) -> str:
        """Once, of one that was given --http: that line follows gRPC's."""
        line = self.process.stdout.readline().rstrip()
        found = re.fullmatch(r"penstock: HTTP on (\S+)", line)
        assert found, line
        return found[1]

    def _read_errors(self) -> None:
        for line in self.process.stderr:
            self.errors.append(line)

    def wait_for(self, line: str, times: int) -> None:
        """Until it has said so as often."""
        end = time.monotonic() + SECONDS
        while self.errors.count(line) < times:
            assert time.monotonic() < end, self.errors
            time.sleep(0.01)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(SECONDS)
        self.reader.join(SECONDS)
        return code


def run_client(script: str, *arguments: str, case: str) -> str:
    """What clients/SCRIPT prints for the case, which must end well."""
    if not CLIENTS.exists():
        pytest.skip("no .clients: run script/setup --tests")
    command = [str(CLIENTS), str(Path(__file__).parent / "clients" / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"done: {case}"
    return done.stdout


def make_certificates(folder: Path) -> None:
    """An authority, and what it signed: localhost.pem and client.pem, with their keys."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new_key = ["-newkey", "rsa:2048", "-nodes"]
    openssl("req", "-x509", *new_key, "-days", "2", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for name in "localhost", "client":
        openssl("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signs = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signs)


class Run:
    """`penstock run` with frames by standard input, one at a time or many. It is patient: of two busy CPUs, a living
    peer may have none for longer than the second after which it would count as lost."""

    def __init__(self, app: Path, **environment: str | Path) -> None:
        command = [find_program(), "run", app, "--input", "frame=-", "--output", "-"]
        pipe = subprocess.PIPE
        patience = {"PENSTOCK_REMOTE_PATIENCE_MS": "30000"}
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **patience, **environment}
        )
        self.pushed = 0

    def push(self, frames: int = 1) -> None:
        for _ in range(frames):
            self.process.stdin.write(np.full(2, self.pushed, np.float32).tobytes())
            self.pushed += 1
        self.process.stdin.flush()

    def pop(self) -> dict:
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        return json.loads(line)

    def end(self) -> list[dict]:
        out, _ = self.process.communicate(timeout=SECONDS)
        return [json.loads(line) for line in out.splitlines()]


def split(model: Path, *arguments: str) -> Path:
    package = model.with_suffix(".penstock")
    command = [find_program(), "split", model, "-o", package, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return package
