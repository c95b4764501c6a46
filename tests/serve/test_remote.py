"""Stages at servers of other processes: `penstock serve` as a stage of `penstock run`, and what may happen to it."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from servers import ROOT, SECONDS, Run, Server, find_program, make_certificates, save, split, value

sys.path.append(str(ROOT / "tools"))
from local_hosts import free_port  # noqa: E402


def save_twice(folder: Path, dims: list, factor: float = 2) -> Path:
    """y = factor * x"""
    file = folder / "twice.onnx"
    node = helper.make_node("Mul", ["x", "factor"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in "xy"]
    weight = numpy_helper.from_array(np.array(factor, np.float32), "factor")
    graph = helper.make_graph([node], "twice", ends[:1], ends[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save_twice(tmp_path, [2])


@pytest.fixture
def serve(model: Path) -> Iterator:
    """serve(*arguments) starts a server of the model."""
    servers: list[Server] = []

    def start(*arguments: str, listen: str = "127.0.0.1:0") -> Server:
        servers.append(Server(str(model), *arguments, listen=listen))
        return servers[-1]

    yield start
    for server in servers:
        server.process.kill()
        server.process.wait()


def save_app(folder: Path, model: str, **fields: object) -> Path:
    more = "".join(f", {key}: {json.dumps(value)}" for key, value in fields.items())
    file = folder / "app.yaml"
    file.write_text(
        "penstock_app: 1\ninputs: {frame: 'f32[2]'}\n"
        f"nodes: {{far: {{model: '{model}', inputs: {{x: frame}}{more}}}}}\noutputs: {{out: far.y}}\n"
    )
    return file


def expected(frame: int) -> dict:
    return {"frame": frame, "outputs": {"out": [2.0 * frame] * 2}}


def refusal(app: Path, *arguments: str) -> str:
    command = [find_program(), "run", app, "--frames", "1", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode != 0
    return done.stderr


def kill_after_a_frame(start: Callable[..., Server], save_for: Callable[[str], Path], run: Callable) -> tuple[str, Run]:
    """Where a server or worker was, and the run of what was saved for it, which had one frame before it was killed."""
    address = f"127.0.0.1:{free_port()}"
    first = start(listen=address)
    assert first.address == address
    started = run(save_for(address))
    started.push()
    assert "outputs" in started.pop()
    first.process.kill()
    first.process.wait()
    return address, started


def kill_server(folder: Path, serve: Callable[..., Server], run: Callable) -> tuple[str, Run]:
    return kill_after_a_frame(serve, lambda address: save_app(folder, f"oip://{address}/twice"), run)


def test_a_node_may_be_a_model_of_a_server(tmp_path, serve, run):
    started = run(save_app(tmp_path, f"oip://{serve().address}/twice"))
    started.push(50)
    assert started.end() == [expected(frame) for frame in range(50)]


def test_a_version_may_be_named(tmp_path, serve, run):
    started = run(save_app(tmp_path, f"oip://{serve().address}/twice:1"))
    started.push(2)
    assert started.end() == [expected(0), expected(1)]


def test_what_the_server_does_not_have_is_refused(tmp_path, serve):
    address = serve().address
    said = refusal(save_app(tmp_path, f"oip://{address}/thrice"))
    assert address in said and "thrice" in said and "app.yaml" in said
    assert "expected oip" in refusal(save_app(tmp_path, "oip://nowhere/twice")) or "host:port" in refusal(
        save_app(tmp_path, "oip://nowhere/twice")
    )
    address = f"127.0.0.1:{free_port()}"
    assert f"peer '{address}'" in refusal(save_app(tmp_path, f"oip://{address}/twice"))


def test_a_sockets_file_without_a_models_name_is_told(tmp_path, serve, run):
    place = serve(listen=f"unix:{tmp_path}/s.sock").address
    said = refusal(save_app(tmp_path, f"oip://{place}"))
    named = f"write the model's name behind it: oip://{place}/NAME"
    assert f"node 'far': '{tmp_path}/s.sock' is the socket's file: {named}" in said
    started = run(save_app(tmp_path, f"oip://{place}/twice"))
    started.push()
    assert started.end() == [expected(0)]


def test_shapes_that_the_server_contradicts_are_refused(tmp_path, serve):
    app = save_app(tmp_path, f"oip://{serve().address}/twice", shapes={"x": "3"})
    assert "'x': the server says f32[2], found f32[3]" in refusal(app)


def test_frames_of_a_killed_server_are_run_by_the_one_that_stands_by(tmp_path, serve, run):
    first, second = serve(), serve()
    app = save_app(tmp_path, f"oip://{first.address}/twice", standby=f"oip://{second.address}", idempotent=True)
    started = run(app)
    started.push(20)
    assert [started.pop() for _ in range(20)] == [expected(frame) for frame in range(20)]
    first.process.send_signal(signal.SIGKILL)
    started.push(200)
    assert started.end() == [expected(frame) for frame in range(20, 220)]


@pytest.mark.sweep(of=3)
def test_frames_of_a_server_that_stands_still_are_run_by_the_one_that_stands_by(tmp_path, serve, run):
    first, second = serve(), serve()
    app = save_app(tmp_path, f"oip://{first.address}/twice", standby=f"oip://{second.address}", idempotent=True)
    started = run(app, PENSTOCK_REMOTE_PATIENCE_MS="8000")
    started.push()
    assert started.pop() == expected(0)
    first.process.send_signal(signal.SIGSTOP)
    started.push(50)
    assert [started.pop() for _ in range(50)] == [expected(frame) for frame in range(1, 51)]
    first.process.send_signal(signal.SIGCONT)
    started.push(50)
    assert started.end() == [expected(frame) for frame in range(51, 101)]


def test_without_another_frames_are_unavailable_and_name_the_server_which_may_return(tmp_path, serve, run, model):
    address, started = kill_server(tmp_path, serve, run)
    started.push()
    error = started.pop()["error"]
    assert error["code"] == "unavailable"
    assert {"kind": "peer", "name": address}.items() <= next(
        place.items() for place in error["places"] if place["kind"] == "peer"
    )
    serve(listen=address)
    answers = []
    while not answers or "error" in answers[-1]:
        started.push()
        answers.append(started.pop())
    assert answers[-1] == expected(started.pushed - 1)


def test_a_server_that_returns_with_another_model_computes_no_frame(tmp_path, serve, run):
    address, started = kill_server(tmp_path, serve, run)
    save_twice(tmp_path, [3])
    serve(listen=address)
    for _ in range(3):
        started.push()
        assert "error" in started.pop()  # The server's own, where nobody noticed that it was gone.


def test_frames_say_how_the_model_differs_that_a_server_returned_with(tmp_path, serve, run):
    address, started = kill_server(tmp_path, serve, run)
    started.push()
    assert started.pop()["error"]["code"] == "unavailable"
    save_twice(tmp_path, [3])
    serve(listen=address)
    end = time.monotonic() + 60
    said = ""
    while "another model" not in said and time.monotonic() < end:
        started.push()
        said = started.pop()["error"]["message"]
    assert said.endswith(
        "is lost, and no other of the stage is there: came back with another model: "
        "expected (x f32[2]) to (y f32[2]), found (x f32[3]) to (y f32[3])"
    )


def test_a_file_of_this_machine_is_nothing_for_a_package(tmp_path, serve):
    (tmp_path / "token").write_text("secret\n")
    app = save_app(tmp_path, f"oip://{serve().address}/twice", options={"token_file": str(tmp_path / "token")})
    assert "names a place on the disk" in refusal(app)


def test_certificates_and_a_token_come_from_files_that_the_environment_names(tmp_path, serve, run):
    make_certificates(tmp_path)
    made = subprocess.run([find_program(), "token", "caller", "--rights", "infer"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (tmp_path / "tokens").write_text(made.stdout)
    (tmp_path / "token").write_text(re.search(r"[A-Za-z0-9_-]{40,}", made.stderr)[0] + "\n")
    server = serve(
        *("--tls-certificate", f"{tmp_path}/localhost.pem", "--tls-key", f"{tmp_path}/localhost.key"),
        *("--tls-client-authority", f"{tmp_path}/ca.pem", "--tokens", f"{tmp_path}/tokens"),
    )
    app = save_app(tmp_path, f"oip://localhost:{server.address.rpartition(':')[2]}/twice")
    started = run(
        app,
        PENSTOCK_REMOTE_ROOT_FILE=tmp_path / "ca.pem",
        PENSTOCK_REMOTE_CERTIFICATE_FILE=tmp_path / "client.pem",
        PENSTOCK_REMOTE_KEY_FILE=tmp_path / "client.key",
        PENSTOCK_REMOTE_TOKEN_FILE=tmp_path / "token",
    )
    started.push(3)
    assert started.end() == [expected(frame) for frame in range(3)]
    assert "it closed the connection at once: it may want TLS (option 'tls' or 'root_file'" in refusal(app)


def test_tls_spoken_to_a_server_in_plain_text_is_told(tmp_path, serve, monkeypatch):
    app = save_app(tmp_path, f"oip://{serve().address}/twice")
    monkeypatch.setenv("PENSTOCK_REMOTE_TLS", "true")
    assert "it answered TLS in plain text: start it with --tls-certificate" in refusal(app)


# ------------------------------------------------------------------------------------- workers


def save_chain(folder: Path) -> Path:
    """y = 2 * frame + 1, in two nodes."""
    file = folder / "chain.onnx"
    nodes = [helper.make_node("Mul", ["frame", "two"], ["middle"]), helper.make_node("Add", ["middle", "one"], ["out"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("frame", "out")]
    weights = [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in [("two", 2), ("one", 1)]]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


def chained(frame: int) -> dict:
    return {"frame": frame, "outputs": {"out": [2.0 * frame + 1] * 2}}


def kill_worker(folder: Path, worker: Callable[..., Server], run: Callable) -> tuple[str, Run]:
    return kill_after_a_frame(worker, lambda at: split(save_chain(folder), "--devices", f"{at}/cpu:0"), run)


def test_a_stage_runs_on_a_worker(tmp_path, worker, run):
    package = split(save_chain(tmp_path), "--cut", "middle", "--devices", f"cpu:0,{worker().address}/cpu:0")
    started = run(package)
    started.push(100)
    assert started.end() == [chained(frame) for frame in range(100)]


def test_frames_of_a_killed_worker_are_run_by_another(tmp_path, worker, run):
    first, second = worker(), worker()
    package = split(save_chain(tmp_path), "--devices", f"{first.address}/cpu:0", "--standby", f"{second.address}/cpu:0")
    started = run(package)
    started.push(20)
    assert [started.pop() for _ in range(20)] == [chained(frame) for frame in range(20)]
    first.process.kill()
    started.push(200)
    assert started.end() == [chained(frame) for frame in range(20, 220)]


def contents_of(cache: Path) -> list[Path]:
    return [file for file in cache.rglob("*") if re.fullmatch("[0-9a-f]{64}", file.name)]


def test_a_stage_with_weights_and_batches_is_given_them_once(tmp_path, worker):
    nodes = [helper.make_node("MatMul", ["x", "weight"], ["y"])]
    ends = [value(name, [1, 64]) for name in "xy"]
    weight = np.eye(64, dtype=np.float32)
    model = save(tmp_path / "dense.onnx", nodes, ends[:1], ends[1:], weight=weight)
    package = split(model, "--batch", "2", "--devices", f"{worker().address}/cpu:0")
    verified = subprocess.run([find_program(), "verify", package], capture_output=True, text=True, timeout=SECONDS)
    assert verified.returncode == 0, verified.stderr
    sent = contents_of(tmp_path / "cache0")
    assert len(sent) == 3  # Two models, and the weights of both.
    assert sum(file.stat().st_size for file in sent) < 2 * weight.nbytes


@pytest.mark.sweep(of=3)
def test_frames_of_a_worker_that_stands_still_are_run_here_until_it_goes_on(tmp_path, worker, run):
    first = worker()
    package = split(save_chain(tmp_path), "--devices", f"{first.address}/cpu:0", "--standby", "cpu:0")
    started = run(package, PENSTOCK_REMOTE_PATIENCE_MS="8000")
    started.push()
    assert started.pop() == chained(0)
    first.process.send_signal(signal.SIGSTOP)
    started.push(50)
    assert [started.pop() for _ in range(50)] == [chained(frame) for frame in range(1, 51)]
    first.process.send_signal(signal.SIGCONT)
    started.push(50)
    assert started.end() == [chained(frame) for frame in range(51, 101)]


def test_a_worker_that_was_started_again_is_given_the_stage_again(tmp_path, worker, run):
    address, started = kill_worker(tmp_path, worker, run)
    started.push()
    assert started.pop()["error"]["code"] == "unavailable"
    worker(address)
    answers = []
    while not answers or "error" in answers[-1]:
        started.push()
        answers.append(started.pop())
    assert answers[-1] == chained(started.pushed - 1)


def make_tokens(folder: Path) -> list[str]:
    made = subprocess.run([find_program(), "token", "caller", "--rights", "infer"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (folder / "tokens").write_text(made.stdout)
    return ["--tokens", f"{folder}/tokens"]


@pytest.mark.parametrize(
    ("takes_away", "told"),
    [
        (make_tokens, "expected a token"),
        (lambda _folder: ["--max-cache", "10"], "has no room: all contents may take 10 bytes"),
    ],
    ids=["rights", "room"],
)
def test_frames_say_why_a_worker_that_returned_refuses_the_stage(tmp_path, worker, run, takes_away, told):
    address, started = kill_worker(tmp_path, worker, run)
    worker(address, *takes_away(tmp_path))
    end = time.monotonic() + 60
    said = ""
    while told not in said and time.monotonic() < end:
        started.push()
        said = started.pop()["error"]["message"]
    assert told in said
    assert f"device '{address}/cpu:0' is lost, and no other of the stage is there: " in said


def test_a_stage_starts_without_a_worker_that_is_not_there_and_takes_it_once_it_is(tmp_path, worker, run):
    address = f"127.0.0.1:{free_port()}"
    started = run(split(save_chain(tmp_path), "--devices", f"{address}/cpu:0", "--standby", "cpu:0"))
    started.push(20)
    assert [started.pop() for _ in range(20)] == [chained(frame) for frame in range(20)]
    first = worker(address)
    while not contents_of(tmp_path / "cache0"):
        started.push()
        assert started.pop() == chained(started.pushed - 1)
    started.push(50)
    assert started.end() == [chained(frame) for frame in range(started.pushed - 50, started.pushed)]
    assert first.end() == 0


def test_a_model_starts_without_a_server_that_is_not_there(tmp_path, serve, run):
    address = f"127.0.0.1:{free_port()}"
    second = serve()
    started = run(save_app(tmp_path, f"oip://{address}/twice", standby=f"oip://{second.address}"))
    started.push(20)
    assert started.end() == [expected(frame) for frame in range(20)]


def test_a_server_that_is_no_worker_is_told(tmp_path, serve, model):
    address = serve().address
    error = refusal(split(model, "--devices", f"{address}/cpu:0"))
    assert f"peer '{address}': it is no penstock worker: start one there ('penstock worker')" in error


def test_a_device_that_the_worker_has_not_is_refused(tmp_path, worker):
    address = worker().address
    said = refusal(split(save_chain(tmp_path), "--devices", f"{address}/cpu:4000"))
    assert f"peer '{address}'" in said and "4000" in said
