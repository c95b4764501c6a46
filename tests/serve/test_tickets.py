"""Tensors from worker to worker: what the caller's links carry, and what becomes of frames whose tensor is lost."""

import json
import re
import select
import socket
import subprocess
import threading
import urllib.request
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from servers import SECONDS, Server, find_program, split

COUNT = 100_000  # Elements of the tensor between the stages.


class CountingProxy:
    """In front of a worker: how many bytes went through, both ways together."""

    def __init__(self, behind: str) -> None:
        self.behind = behind
        self.bytes = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(caller,), daemon=True).start()

    def _pass(self, caller: socket.socket) -> None:
        host, port = self.behind.rsplit(":", 1)
        try:
            with caller, socket.create_connection((host, int(port))) as worker:
                ends = {caller: worker, worker: caller}
                while True:
                    for ready in select.select(list(ends), [], [])[0]:
                        data = ready.recv(1 << 18)
                        if not data:
                            return
                        with self.lock:
                            self.bytes += len(data)
                        ends[ready].sendall(data)
        except OSError:
            return

    def close(self) -> None:
        self.listener.close()


def save_wide(folder: Path) -> Path:
    """out = frame: two numbers, which a large tensor in the middle has COUNT times over."""
    nodes = [
        helper.make_node("Mul", ["frame", "ones"], ["middle"]),
        helper.make_node("ReduceMax", ["middle"], ["out"], axes=[1], keepdims=1),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 1]) for name in ("frame", "out")]
    weight = numpy_helper.from_array(np.ones((1, COUNT), np.float32), "ones")
    graph = helper.make_graph(nodes, "wide", ends[:1], ends[1:], [weight])
    file = folder / "wide.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


def answer(said: dict) -> list[float]:
    assert "error" not in said, said
    return np.ravel(said["outputs"]["out"]).tolist()


def in_two(folder: Path, *devices: str, standby: str = "") -> Path:
    """A stage on each device; the last one has the other for a stand-by."""
    package = split(save_wide(folder), "--cut", "middle", "--devices", ",".join(f"{at}/cpu:0" for at in devices))
    if standby:
        plan = json.loads((package / "plan.json").read_text())
        plan["stages"][1]["standby"] = [f"{standby}/cpu:0"]
        (package / "plan.json").write_text(json.dumps(plan))
    return package


def test_what_one_worker_made_and_another_reads_does_not_come_here(tmp_path, worker, run):
    first, second = CountingProxy(worker().address), CountingProxy(worker().address)
    package = in_two(tmp_path, first.address, second.address)
    # Its weights, as large as a frame of the tensor, went there with the model.
    started = run(package)
    started.push()
    assert answer(started.pop()) == [0.0, 0.0]
    before = first.bytes, second.bytes
    frames, tensor = 30, 2 * COUNT * 4
    started.push(frames)
    assert [answer(started.pop()) for _ in range(frames)] == [[n, n] for n in range(1, frames + 1)]
    once = (first.bytes - before[0]) / (frames * tensor)
    assert 1.0 <= once < 1.1, "the second worker fetches each tensor once, from the first one"
    assert (second.bytes - before[1]) / (frames * tensor) < 0.05, "the caller sends none"
    first.close()
    second.close()


def test_who_wants_it_so_sends_all_through_the_caller(tmp_path, worker, run):
    first, second = CountingProxy(worker().address), CountingProxy(worker().address)
    started = run(in_two(tmp_path, first.address, second.address), PENSTOCK_REMOTE_DIRECT="false")
    started.push()
    assert answer(started.pop()) == [0.0, 0.0]
    before = second.bytes
    started.push(5)
    assert [answer(started.pop()) for _ in range(5)] == [[n, n] for n in range(1, 6)]
    assert (second.bytes - before) / (5 * 2 * COUNT * 4) >= 1.0
    first.close()
    second.close()


def test_a_stage_here_reads_what_a_worker_made_for_another_too(tmp_path, worker, run):
    """A diamond: the tensor in the middle is read on a worker, and here."""
    nodes = [
        helper.make_node("Mul", ["frame", "two"], ["middle"]),
        helper.make_node("Add", ["middle", "two"], ["left"]),
        helper.make_node("Sub", ["middle", "two"], ["right"]),
        helper.make_node("Mul", ["left", "right"], ["out"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("frame", "out")]
    weight = numpy_helper.from_array(np.array(2, np.float32), "two")
    graph = helper.make_graph(nodes, "diamond", ends[:1], ends[1:], [weight])
    file = tmp_path / "diamond.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    devices = f"{worker().address}/cpu:0,{worker().address}/cpu:0,cpu:0"
    started = run(split(file, "--cut", "middle", "--cut", "left", "--devices", devices))
    started.push(50)
    assert [answer(said) for said in started.end()] == [[(2.0 * n + 2) * (2.0 * n - 2)] * 2 for n in range(50)]


def test_frames_of_a_killed_reader_are_fetched_again_by_the_one_that_stands_by(tmp_path, worker, run):
    first, second, third = worker(), worker(), worker()
    started = run(in_two(tmp_path, first.address, second.address, standby=third.address))
    started.push(5)
    assert [answer(started.pop()) for _ in range(5)] == [[n, n] for n in range(5)]
    started.push(20)
    second.process.kill()
    started.push(20)
    assert [answer(said) for said in started.end()] == [[n, n] for n in range(5, 45)]


def test_frames_of_a_killed_maker_are_there_or_unavailable(tmp_path, worker, run):
    first, second = worker(), worker()
    started = run(in_two(tmp_path, first.address, second.address))
    started.push(5)
    assert [answer(started.pop()) for _ in range(5)] == [[n, n] for n in range(5)]
    started.push(30)
    first.process.kill()
    started.push(5)
    said = started.end()
    assert [each["frame"] for each in said] == list(range(5, 40))
    for each in said:
        if "error" in each:
            assert each["error"]["code"] == "unavailable", each
            places = [place for place in each["error"]["places"] if place["kind"] == "peer"]
            assert first.address in [place["name"] for place in places], each
        else:
            assert answer(each) == [each["frame"]] * 2
    assert "error" in said[-1]


@pytest.mark.sweep(of=3)
def test_frames_of_a_maker_that_stands_still_do_not_wait_for_it(tmp_path, worker, run):
    first, second = worker(), worker()
    started = run(in_two(tmp_path, first.address, second.address), PENSTOCK_REMOTE_PATIENCE_MS="8000")
    started.push(5)
    assert [answer(started.pop()) for _ in range(5)] == [[n, n] for n in range(5)]
    first.process.send_signal(19)  # SIGSTOP
    started.push(10)
    said = [started.pop() for _ in range(10)]  # While it stands still.
    assert all(each["error"]["code"] == "unavailable" for each in said if "error" in each), said
    assert "error" in said[-1]
    # Not because a pull took too long: that would be half a minute later.
    causes = ("lost", "no sign of life")
    assert all(any(cause in str(each) for cause in causes) for each in said if "error" in each), said
    first.process.send_signal(18)  # SIGCONT
    answers: list[dict] = []
    while not answers or "error" in answers[-1]:
        started.push()
        answers.append(started.pop())
    assert answer(answers[-1]) == [started.pushed - 1.0] * 2


def test_a_frame_that_is_over_leaves_nothing_on_the_worker(tmp_path, worker, run):
    """More tensors than the worker may hold at a time go through, if each is freed."""
    tensor = 2 * COUNT * 4
    first, second = worker("127.0.0.1:0", "--max-tickets", str(12 * tensor)), worker()
    started = run(in_two(tmp_path, first.address, second.address))
    for _ in range(8):
        started.push(8)
        assert all("error" not in started.pop() for _ in range(8))
    assert started.process.poll() is None


def test_a_trace_shows_what_workers_did_within_what_the_caller_saw(tmp_path, worker):
    package = in_two(tmp_path, worker().address, worker().address)
    line = [find_program(), "run", package, "--frames", "20", "--trace", tmp_path / "trace.json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    seen = {
        (event["cat"], event["args"]["frame"]): (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["ph"] == "X" and "queue_us" in event["args"]
    }
    begun = [event for event in events if event["ph"] == "b" and "clock_error_us" in event.get("args", {})]
    assert {(event["cat"], event["args"]["frame"]) for event in begun} == seen.keys()
    assert len(seen) == 40
    for event in begun:
        first, last = seen[event["cat"], event["args"]["frame"]]
        off = event["args"]["clock_error_us"] + 1
        assert first - off <= event["ts"] <= last + off
    pulled = {event["cat"] for event in events if event["ph"] == "b" and event["name"] == "pull"}
    assert len(pulled) == 1, "the second stage alone fetches what it reads"


def test_a_request_is_traced_through_a_worker_and_a_server(tmp_path, worker):
    """serve -> worker, and serve -> serve: each knows whose trace it was."""
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    behind = worker("127.0.0.1:0", "--trace", str(tmp_path / "worker.json"))
    package = split(save_wide(tmp_path), "--devices", f"{behind.address}/cpu:0")
    far = Server(str(package), "--trace", str(tmp_path / "far.json"))
    (tmp_path / "app.yaml").write_text(
        "penstock_app: 1\nname: app\ninputs: {frame: 'f32[2,1]'}\n"
        f"nodes: {{far: {{model: 'oip://{far.address}/', inputs: {{frame: frame}}}}}}\noutputs: {{out: far.out}}\n"
    )
    near = Server(str(tmp_path / "app.yaml"), "--http", "127.0.0.1:0", "--trace", str(tmp_path / "near.json"))
    address = re.fullmatch(r"penstock: HTTP on (\S+)\n", near.process.stdout.readline())[1]
    tensor = {"name": "frame", "shape": [2, 1], "datatype": "FP32", "data": [1, 2]}
    request = urllib.request.Request(
        f"http://{address}/v2/models/app/infer",
        json.dumps({"inputs": [tensor]}).encode(),
        {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"},
    )
    odd = urllib.request.Request(request.full_url, request.data, {"traceparent": "\xff\t\xe9"})
    for asked in odd, request:  # What no header can hold harms nobody.
        with urllib.request.urlopen(asked, timeout=SECONDS) as said:
            assert json.loads(said.read())["outputs"][0]["data"] == [1, 2]
    for server in near, far, behind:
        assert server.end() == 0, server.errors

    def events(name: str) -> list[dict]:
        return json.loads((tmp_path / f"{name}.json").read_text())["traceEvents"]

    def traced(name: str) -> list[dict]:
        return [event for event in events(name) if event.get("args", {}).get("trace_id") == trace_id]

    assert all(traced(name) for name in ("near", "far", "worker"))
    frame = traced("far")[0]["args"]["frame"]
    of_worker = [event for event in events("far") if "clock_error_us" in event.get("args", {})]
    assert sorted(event["args"]["frame"] for event in of_worker) == [frame - 1, frame], "in the caller's trace"
