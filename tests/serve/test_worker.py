"""penstock worker, as callers on other machines see it: processes of their own, over real sockets."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from servers import CLIENTS, ROOT, SECONDS, find_program, make_certificates, split

sys.path.append(str(ROOT / "tools"))
from local_hosts import free_port  # noqa: E402

SCRIPT = Path(__file__).parent / "clients/worker_client.py"
OWN = ["--tls-certificate", "localhost.pem", "--tls-key", "localhost.key"]


def save_model(file: Path) -> Path:
    """sum = x + 1, product = x * 3, f32[2,4]."""
    nodes = [helper.make_node("Add", ["x", "one"], ["sum"]), helper.make_node("Mul", ["x", "three"], ["product"])]
    numbers = {"one": 1, "three": 3}
    weights = [numpy_helper.from_array(np.array(number, np.float32), name) for name, number in numbers.items()]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in ("x", "sum", "product")]
    graph = helper.make_graph(nodes, "head", values[:1], values[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


class Worker:
    def __init__(self, cache: Path, *arguments: str) -> None:
        first = str(min(os.sched_getaffinity(0)))  # On a part of the CPUs: its cpuset is respected.
        command = ["taskset", "-c", first, str(find_program()), "-v", "worker", "--listen", "127.0.0.1:0"]
        command += ["--cache", str(cache), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self._address()
        self.log: list[str] = []
        self.logged = threading.Condition()
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()

    def _address(self) -> str:
        for line in self.process.stdout:
            if found := re.fullmatch(r"penstock: gRPC on (\S+)", line.rstrip()):
                return found[1]
        raise AssertionError(self.process.stderr.read())

    def _read_log(self) -> None:
        for line in self.process.stderr:
            with self.logged:
                self.log.append(line)
                self.logged.notify_all()

    def wait_for(self, text: str) -> None:
        with self.logged:
            assert self.logged.wait_for(lambda: any(text in line for line in self.log), SECONDS), self.log

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(SECONDS)
        self.reader.join(SECONDS)
        return code


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model, and what worker.proto describes."""
    folder = tmp_path_factory.mktemp("worker")
    save_model(folder / "head.onnx")
    if shutil.which("protoc") is None:
        pytest.skip("no protoc: run script/setup")
    text = "penstock/grpc/worker.proto"
    subprocess.run(["protoc", f"-I{ROOT / 'src'}", f"--descriptor_set_out={folder / 'messages'}", text], check=True)
    return folder


def client_command(made: Path, case: str, *arguments: str) -> list[str]:
    if not CLIENTS.exists():
        pytest.skip("no .clients: run script/setup --tests")
    return [str(CLIENTS), str(SCRIPT), str(made / "messages"), case, str(made / "head.onnx"), *arguments]


def run_client(made: Path, case: str, *arguments: str) -> None:
    command = client_command(made, case, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"done: {case}"


@pytest.fixture(scope="module")
def worker(made: Path) -> Iterator[Worker]:
    worker = Worker(made / "cache")
    yield worker
    assert worker.end() == 0, worker.log


CASES = [
    "runs_a_stage",
    "measures",
    "brings_no_native_code",
    "sends_rubbish",
    "loads_over_the_open_protocol",
]


@pytest.mark.parametrize("case", CASES)
def test_a_caller(worker: Worker, made: Path, case: str) -> None:
    run_client(made, case, worker.address)


def test_it_tells_of_the_cpus_that_it_was_given(worker: Worker, made: Path) -> None:
    run_client(made, "describes", worker.address)


def test_tensors_go_from_worker_to_worker(worker: Worker, made: Path) -> None:
    other = Worker(made / "other")
    run_client(made, "passes_tensors_directly", worker.address, other.address)
    assert other.end() == 0, other.log


@pytest.mark.sweep(of=3)
def test_a_caller_that_is_killed_leaves_nothing(worker: Worker, made: Path) -> None:
    command = client_command(made, "is_killed", worker.address)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    worker.wait_for("was not heard of within its lease")
    run_client(made, "runs_a_stage", worker.address)


def test_it_tells_what_callers_have_and_what_they_ask(made: Path, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "access.log"
    worker = Worker(tmp_path / "cache", "--http", f"127.0.0.1:{port}", "--access-log", str(log))
    first = min(os.sched_getaffinity(0))
    model = Path(shutil.copy(made / "head.onnx", tmp_path))
    package = split(model, "--devices", f"{worker.address}/cpu:{first}", "--backend", "onnxruntime")
    command = [find_program(), "run", package, "--input", "x=-", "--output", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        caller.stdin.write(np.ones(8, np.float32).tobytes())
        caller.stdin.flush()
        assert json.loads(caller.stdout.readline())["frame"] == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
            figures = answer.read().decode()
        caller.stdin.close()
        assert caller.wait(SECONDS) == 0
    assert worker.end() == 0, worker.log
    assert "\npenstock_worker_sessions 1\n" in figures and "\npenstock_worker_stages 1\n" in figures
    assert "\nprocess_resident_memory_bytes " in figures
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    asked = {line["target"].removeprefix("/penstock.worker.Worker/"): line for line in lines}
    assert {"Session", "MissingContents", "PutContent", "OpenStage", "Run"} <= set(asked)
    assert asked["Run"]["frame"] == "0" and asked["Run"]["status"] == 0
    assert asked["PutContent"]["request_bytes"] > 0


def test_contents_outlive_the_worker(made: Path, tmp_path: Path) -> None:
    first = Worker(tmp_path)
    run_client(made, "runs_a_stage", first.address)
    first.process.kill()
    first.process.wait(SECONDS)
    second = Worker(tmp_path)
    run_client(made, "is_known_again", second.address)
    assert second.end() == 0


def test_calls_in_progress_are_answered_at_the_end(made: Path, tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    command = client_command(made, "is_answered_at_the_end", worker.address)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as client:
        assert client.stdout.readline() == "asked\n"
        said = client.stdout.read()
        assert client.wait(SECONDS) == 0, said
    assert worker.end() == 0


def test_workers_know_one_another_by_certificates(made: Path, tmp_path: Path) -> None:
    make_certificates(tmp_path)
    own = ["--tls-certificate", f"{tmp_path}/localhost.pem", "--tls-key", f"{tmp_path}/localhost.key"]
    own += ["--tls-client-authority", f"{tmp_path}/ca.pem"]
    workers = [Worker(tmp_path / name, *own) for name in ("first", "second")]
    run_client(made, "passes_tensors_directly", *(worker.address for worker in workers), str(tmp_path))
    for worker in workers:
        assert worker.end() == 0, worker.log


@pytest.mark.parametrize(
    ("arguments", "errors"),
    [
        (["--peer-token", "absent"], ["'absent'", "--peer-token"]),
        (["--peer-authority", "absent.pem"], ["--peer-authority needs --tls-certificate"]),
        ([*OWN, "--peer-authority", "localhost.key"], ["'localhost.key'", "certificates of an authority"]),
        (["--tls-certificate", "localhost.pem", "--tls-key", "ca.key"], ["'ca.key'", "the certificate's key"]),
        ([*OWN, "--tls-client-authority", "absent.pem"], ["'absent.pem'"]),
    ],
)
def test_files_that_cannot_be_used_are_refused_at_the_start(
    tmp_path: Path, arguments: list[str], errors: list[str]
) -> None:
    make_certificates(tmp_path)
    command = [Path(find_program()).resolve(), "worker", "--listen", "127.0.0.1:0", "--cache", "cache", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert all(error in done.stderr for error in errors), done.stderr


@pytest.mark.sweep(of=3)
def test_workers_know_one_another_by_tokens(tmp_path: Path) -> None:
    made = subprocess.run([find_program(), "token", "all", "--rights", "infer,load"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (tmp_path / "tokens").write_text(made.stdout)
    (tmp_path / "token").write_text(re.search(r"[A-Za-z0-9_-]{40,}", made.stderr)[0] + "\n")
    asks = ["--tokens", str(tmp_path / "tokens")]
    for shows, code in (["--peer-token", str(tmp_path / "token")], 0), ([], 1):
        workers = [Worker(tmp_path / f"{name}{code}", *asks, *shows) for name in ("first", "second")]
        hosts = "".join(f"  h{i}: {{address: '{worker.address}'}}\n" for i, worker in enumerate(workers))
        (tmp_path / "hosts.yaml").write_text(f"penstock_hosts: 1\ndefaults: {{token_file: token}}\nhosts:\n{hosts}")
        # Each worker measures its link to the other one.
        command = [str(find_program()), "devices", "--hosts", str(tmp_path / "hosts.yaml"), "--json"]
        environment = {**os.environ, "PENSTOCK_COSTS": str(tmp_path / "costs.db")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        for worker in workers:
            assert worker.end() == 0, worker.log


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--listen", "0.0.0.0:0"], "--listen: plain text would leave this machine"),
        (["--cache", "/proc/none"], "cannot be made"),
        (["--lease", "-1"], "--lease: expected a number from 0.001 to 60, found '-1'"),
        (["--lease", "1e9"], "--lease: expected a number from 0.001 to 60, found '1e9'"),
        (["--patience", "inf"], "--patience: expected a number from 0 to 1e+09, found 'inf'"),
        (["--max-sessions", "0"], "--max-sessions: expected a whole number from 1 to 1000000000, found '0'"),
    ],
)
def test_it_says_what_is_wrong(tmp_path: Path, arguments: list[str], error: str) -> None:
    command = [str(find_program()), "worker", *arguments]
    command += [] if "--cache" in arguments else ["--cache", str(tmp_path)]
    command += [] if "--listen" in arguments else ["--listen", "127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode in (1, 2)
    assert error in done.stderr


def test_a_folder_of_contents_has_one_worker(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    command = [str(find_program()), "worker", "--listen", "127.0.0.1:0", "--cache", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1
    assert "another worker has it" in done.stderr
    assert worker.end() == 0


def test_the_port_that_serve_and_worker_share_is_named(tmp_path: Path) -> None:
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # Another process has it.
            held.enter_context(socket.create_server(("127.0.0.1", 8001)))
        command = [str(find_program()), "worker", "--cache", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1
    assert "--listen: '127.0.0.1:8001' cannot be listened on: another process has port 8001" in done.stderr
    assert "serve and worker have the same port unless they are told" in done.stderr
