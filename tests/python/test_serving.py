"""penstock.serve(): models behind a port of this process."""

import json
import os
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import penstock

FREE = {"listen": "127.0.0.1:0", "http": "127.0.0.1:0"}


def ask(address: str | None, path: str, body: dict | None = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(f"http://{address}{path}", data, timeout=60) as answer:
        return json.loads(answer.read() or "{}")


def infer(address: str | None, model: str, values: list[float], name: str = "x") -> list[float]:
    tensor = {"name": name, "shape": [1, 4], "datatype": "FP32", "data": values}
    return ask(address, f"/v2/models/{model}/infer", {"inputs": [tensor]})["outputs"][0]["data"]


def input_name(model: Path) -> str:
    with penstock.split(model) as pipeline:
        return pipeline.get_inputs()[0].name


def test_it_serves_until_the_block_ends(model: Path) -> None:
    name = input_name(model)
    with penstock.serve({"m": model, "m:2": model}, **FREE) as server:
        assert server.models == ["m version 1", "m version 2"]
        host, _, port = server.grpc.rpartition(":")
        assert host == "127.0.0.1" and int(port) > 0 and server.grpc in repr(server)
        with penstock.split(model) as pipeline:
            expected = pipeline(np.arange(4, dtype=np.float32).reshape(1, 4))[0].ravel().tolist()
        assert infer(server.http, "m", [0, 1, 2, 3], name) == expected
        address = server.http
    assert "closed" in repr(server)
    assert server.models == []
    with pytest.raises(penstock.Cancelled, match="the server is closed"):
        server.reload()
    with pytest.raises(urllib.error.URLError):
        ask(address, "/v2")
    server.close()


def test_lost_lines_of_the_access_log_are_warned_of(model: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.warns(penstock.PenstockWarning) as warned:
        with penstock.serve(model, **FREE, access_log=str(pipe)) as server:
            os.close(reader)
            for _ in range(3):
                ask(server.http, "/v2")
    told = [str(warning.message) for warning in warned]
    assert told == [f"access log '{pipe}': lines are lost: Broken pipe", f"access log '{pipe}': ends; lines lost: 3"]


def test_a_requests_time_begins_when_it_comes(model: Path) -> None:
    tensor = {"name": input_name(model), "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}
    with penstock.serve({"m": model}, **FREE) as server, pytest.raises(urllib.error.HTTPError) as late:
        ask(server.http, "/v2/models/m/infer", {"inputs": [tensor], "parameters": {"timeout": 1}})
    assert "since the request came, at most 1 us allowed" in late.value.read().decode()


def test_two_serve_at_once_and_python_runs_beside(model: Path) -> None:
    name = input_name(model)
    with penstock.serve(model, **FREE) as one, penstock.serve([f"other={model}"], **FREE) as two:
        answers: list[list[float]] = []

        def work() -> None:
            answers.extend(infer(one.http, model.stem, [1, 1, 1, 1], name) for _ in range(20))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == 80 and all(answer == answers[0] for answer in answers)
        assert infer(two.http, "other", [1, 1, 1, 1], name) == answers[0]


def test_callables_of_applications_are_served(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(
        "penstock_app: 1\nname: app\ninputs: {frame: 'f32[1,4]'}\n"
        "nodes: {twice: {function: twice, inputs: {x: frame}}}\noutputs: {out: twice.y}\n"
    )
    twice = penstock.Function("twice", lambda x: 2 * x, {"x": "f32[1,4]"}, {"y": "f32[1,4]"})
    with penstock.serve(tmp_path / "app.yaml", functions=[twice], **FREE) as server:
        assert infer(server.http, "app", [1, 2, 3, 4], "frame") == [2, 4, 6, 8]


def test_clients_get_no_traceback(tmp_path: Path) -> None:
    """It tells of the server's own files and code."""
    (tmp_path / "app.yaml").write_text(
        "penstock_app: 1\nname: app\ninputs: {frame: 'f32[1,4]'}\n"
        "nodes: {fails: {function: fails, inputs: {x: frame}}}\noutputs: {out: fails.y}\n"
    )

    def fail(x: np.ndarray) -> np.ndarray:
        raise ValueError("not today")

    fails = penstock.Function("fails", fail, {"x": "f32[1,4]"}, {"y": "f32[1,4]"})
    with penstock.serve(tmp_path / "app.yaml", functions=[fails], **FREE) as server:
        with pytest.raises(urllib.error.HTTPError) as told:
            infer(server.http, "app", [1, 2, 3, 4], "frame")
        assert json.loads(told.value.read())["error"].endswith("ValueError: not today")
        with penstock.connect(server.grpc) as far, pytest.raises(penstock.PenstockError, match="not today$"):
            far(np.zeros((1, 4), np.float32))


def save_counter(folder: Path, name: str = "counter") -> Path:
    """total = before + x * gain: a state, and an input that never changes."""
    nodes = [
        helper.make_node("Mul", ["x", "gain"], ["scaled"]),
        helper.make_node("Add", ["scaled", "before"], ["total"]),
    ]
    nodes.append(helper.make_node("Identity", ["total"], ["sum"]))
    inputs = [helper.make_tensor_value_info(of, TensorProto.FLOAT, [2]) for of in ("x", "gain", "before")]
    outputs = [helper.make_tensor_value_info(of, TensorProto.FLOAT, [2]) for of in ("total", "sum")]
    graph = helper.make_graph(nodes, name, inputs, outputs)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / f"{name}.onnx"
    )
    return folder / f"{name}.onnx"


def count(address: str | None, model: str, sequence: int, start: bool) -> list[float]:
    """What a request with x = [1, 2] is answered."""
    asked = {
        "inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}],
        "parameters": {"sequence_id": sequence, "sequence_start": start},
    }
    return ask(address, f"/v2/models/{model}/infer", asked)["outputs"][0]["data"]


def test_inputs_of_a_model_are_bound_and_its_states_fed_back(tmp_path: Path) -> None:
    options = {"constants": {"gain": [10, 100]}, "states": {"total": "before"}}
    with penstock.serve(save_counter(tmp_path), **options, **FREE) as server:
        described = ask(server.http, "/v2/models/counter")
        assert [tensor["name"] for tensor in described["inputs"]] == ["x"]
        assert [tensor["name"] for tensor in described["outputs"]] == ["sum"]
        assert [count(server.http, "counter", 1, start) for start in (True, False)] == [[10, 200], [20, 400]]
        assert count(server.http, "counter", 2, True) == [10, 200]
        server.reload()
        assert count(server.http, "counter", 1, False) == [30, 600]


def test_settings_of_several_models_go_by_name(tmp_path: Path) -> None:
    model = save_counter(tmp_path)
    states = {name: {"total": "before"} for name in ("a", "b")}
    gains = {"a": {"gain": np.float32([1, 1])}, "b": {"gain": [2, 2]}}
    with penstock.serve({"a": model, "b": model}, constants=gains, states=states, **FREE) as server:
        assert [count(server.http, name, 1, True) for name in ("a", "b")] == [[1, 2], [2, 4]]
    with pytest.raises(penstock.InvalidArgument, match=r"expected a model that is served \('a'\), found 'c'"):
        penstock.serve({"a": model}, constants={"c": {"gain": [2, 2]}}, **FREE)
    with pytest.raises(penstock.InvalidArgument, match="a dict for each model, by its name"):
        penstock.serve([f"a={model}", f"b={model}"], constants={"gain": [2, 2]}, **FREE)
    with pytest.raises(penstock.NotFound, match="no input 'loss'"):
        penstock.serve(model, constants={"loss": 1}, **FREE)
    with penstock.split(model, output=tmp_path / "m.penstock"):
        pass
    with pytest.raises(penstock.InvalidArgument, match="is for a model"):
        penstock.serve(tmp_path / "m.penstock", constants={"gain": [2, 2]}, **FREE)


def test_models_are_read_again(model: Path, tmp_path: Path) -> None:
    package = tmp_path / "m.penstock"
    with penstock.split(model, output=package):
        pass
    with penstock.serve(package, **FREE) as server:
        server.reload()
        assert server.models == ["m version 1"]
        (package / "plan.json").write_text("{}")
        with pytest.raises(penstock.PenstockError):
            server.reload()
        assert ask(server.http, "/v2/models/m")["name"] == "m"


def test_a_trace_is_written(model: Path, tmp_path: Path) -> None:
    name = input_name(model)
    with penstock.serve(model, trace=True, **FREE) as server:
        infer(server.http, model.stem, [1, 1, 1, 1], name)
        assert server.trace(tmp_path / "trace.json") == 0
    names = {event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert {f"request {model.stem}", "frame 0"} <= names
    with penstock.serve(model, **FREE) as server, pytest.raises(penstock.FailedPrecondition):
        server.trace(tmp_path / "trace.json")


def test_it_says_what_is_wrong(model: Path, tmp_path: Path) -> None:
    with pytest.raises(penstock.NotFound):
        penstock.serve(tmp_path / "absent.onnx", **FREE)
    with pytest.raises(penstock.PermissionDenied, match="plain text"):
        penstock.serve(model, listen="0.0.0.0:0")
    with pytest.raises(penstock.InvalidArgument, match="max_waiting"):
        penstock.serve(model, max_waiting=0, **FREE)
    with pytest.raises(penstock.InvalidArgument, match="both model"):
        penstock.serve([model, model], **FREE)
    with pytest.raises(penstock.InvalidArgument, match="models"):
        penstock.serve(3, **FREE)  # type: ignore[arg-type]
    with penstock.serve(model, **FREE) as server, pytest.raises(penstock.Unavailable, match="cannot be listened on"):
        penstock.serve(model, listen=server.grpc)


def test_a_program_may_end_while_it_serves(model: Path, run_script) -> None:
    text = """
import sys, penstock
before = open("/proc/self/maps").read()
server = penstock.serve(sys.argv[1], listen="127.0.0.1:0")
print("grpc" in before, "grpc" in open("/proc/self/maps").read())
"""
    assert run_script(text, model) == "False True\n"
