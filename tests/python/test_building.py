"""penstock.build() and explain()."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from line import expected, frame

import penstock


@pytest.fixture(autouse=True)
def costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_COSTS", str(tmp_path / "costs.db"))


@pytest.mark.sweep(of=3)
def test_the_best_pipeline_is_built_started_and_explained(model: Path, tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    with penstock.build(
        model.read_bytes(),
        tmp_path / "best.penstock",
        devices=f"cpu:{penstock.devices()['cpuset'][0]}",
        goal="latency",
        budget=1,
        backends=["onnxruntime"],
        progress=lambda what, share: told.append((what, share)),
    ) as pipeline:
        np.testing.assert_allclose(pipeline(frame(3))[0], expected(3))
    report = penstock.explain(tmp_path / "best.penstock")
    assert report["goal"] == "latency"
    assert report["chosen"] in [way["name"] for way in report["ways"]]
    assert {part["backend"] for part in report["parts"]} == {"onnxruntime"}
    assert told
    assert all(isinstance(what, str) and share >= 0 for what, share in told)


@pytest.mark.sweep(of=3)
def test_a_call_may_take_several_frames(model: Path, tmp_path: Path) -> None:
    package = tmp_path / "several.penstock"
    device = f"cpu:{penstock.devices()['cpuset'][0]}"
    with penstock.build(model, package, devices=device, budget=60, backends=["onnxruntime"], batch=4) as pipeline:
        results = list(pipeline.stream(frame(i) for i in range(20)))
    for i, result in enumerate(results):
        np.testing.assert_allclose(result[0], expected(i))
    report = penstock.explain(package)
    tried = any("frames in a call" in way["name"] for way in report["ways"])
    assert tried or any("none is clearly faster" in note for note in report["notes"])


@pytest.mark.sweep(of=3)
def test_it_is_built_by_ones_own_frames(tmp_path: Path) -> None:
    """y = table[(i * i - 1000000) / 2000], where random integers are outside."""
    graph = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (int64[1] i) => (float[1] y)'
        " <float[4] table = {1, 2, 3, 4}, int64[1] offset = {1000000}, int64[1] step = {2000}>"
        " { square = Mul(i, i) past = Sub(square, offset) at = Div(past, step) y = Gather(table, at) }"
    )
    onnx.save(graph, tmp_path / "lookup.onnx")
    options = {"devices": f"cpu:{penstock.devices()['cpuset'][0]}", "budget": 1, "backends": ["onnxruntime"]}
    frames = [{"i": np.array([1000 + at], np.int64)} for at in range(4)]
    with penstock.build(tmp_path / "lookup.onnx", frames=frames, **options) as pipeline:
        np.testing.assert_array_equal(pipeline(frames[2]["i"])[0], [3])
    with pytest.raises(penstock.PenstockError, match="out of data bounds"):
        penstock.build(tmp_path / "lookup.onnx", **options)
    with pytest.raises(penstock.InvalidArgument, match="frames: frame 0: no input 'j'; the inputs are 'i'"):
        penstock.build(tmp_path / "lookup.onnx", frames=[{"j": np.zeros(1)}], **options)


@pytest.mark.sweep(of=3)
def test_a_state_is_handed_on(tmp_path: Path) -> None:
    """y = x + s, which the next frame reads as s."""
    graph = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] s) => (float[2] y, float[2] t)'
        " { y = Add(x, s) t = Identity(y) }"
    )
    onnx.save(graph, tmp_path / "sum.onnx")
    np.save(tmp_path / "ten.npy", np.full(2, 10, np.float32))
    options = {"devices": f"cpu:{penstock.devices()['cpuset'][0]}"}
    one = np.ones(2, np.float32)
    with penstock.build(
        tmp_path / "sum.onnx",
        tmp_path / "sum.penstock",
        states={"t": ("s", tmp_path / "ten.npy")},
        frames=[{"x": one * i} for i in range(4)],
        budget=1,
        backends=["onnxruntime"],
        **options,
        streams=2,
    ) as pipeline:
        assert [pipeline(one)[0][0] for _ in range(3)] == [11, 12, 13]
    with penstock.load(tmp_path / "sum.penstock") as pipeline:  # As the package says.
        assert pipeline.plan["streams"] == {"most": 2, "evict": False}
        calls = [pipeline.stream_of(number) for number in (0, 1)]
        assert [call(one * (i + 1))[0][0] for _ in range(2) for i, call in enumerate(calls)] == [11, 12, 12, 14]
    assert penstock.verify(tmp_path / "sum.penstock")["ok"]
    with penstock.split(tmp_path / "sum.onnx", states={"t": "s"}, **options) as pipeline:
        assert [pipeline(one)[0][0] for _ in range(3)] == [1, 2, 3]
    with pytest.raises(penstock.NotFound, match="no output 'u'; did you mean 'y' or 't'"):
        penstock.build(tmp_path / "sum.onnx", states={"u": "s"}, **options)
    with pytest.raises(penstock.InvalidArgument, match=r"states\['t'\]: expected an input, or an input and a file"):
        penstock.build(tmp_path / "sum.onnx", states={"t": 3}, **options)  # type: ignore[dict-item]
    with pytest.raises(penstock.InvalidArgument, match=r"states\['t'\]: expected a file.*numpy.save.*, found ndarray"):
        penstock.split(tmp_path / "sum.onnx", states={"t": ("s", one)}, **options)  # type: ignore[dict-item]


@pytest.mark.parametrize("written", [False, True])
def test_each_of_several_streams_has_a_replica_for_its_state(tmp_path: Path, written: bool) -> None:
    """y = x + s / 2, which the next frame of the stream reads as s."""
    graph = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,2] x, float[1,2] s) => (float[1,2] y, float[1,2] t)'
        " <float half = {0.5}> { h = Mul(s, half) y = Add(x, h) t = Identity(y) }"
    )
    cpu = f"cpu:{penstock.devices()['cpuset'][0]}"
    output = tmp_path / "halved.penstock" if written else None
    given: Any = {"states": {"t": "s"}, "replicas": 2, "batch": 4, "devices": cpu, "output": output}
    x = np.random.default_rng(0).standard_normal((8, 10, 1, 2)).astype(np.float32)
    states = np.zeros((8, 1, 2), np.float32)
    with penstock.split(graph.SerializeToString(), **given, streams=8) as pipeline:
        assert [len(stage["devices"]) for stage in pipeline.plan["stages"]] == [2]
        for i in range(10):
            for stream in range(8):
                pipeline.push({"x": x[stream, i]}, stream=stream)
            for stream in range(8):
                states[stream] = x[stream, i] + states[stream] / 2
                frame_out = pipeline.pop()
                assert frame_out is not None and frame_out.stream == stream
                np.testing.assert_allclose(frame_out["y"], states[stream], rtol=1e-6)
    with pytest.raises(penstock.InvalidArgument, match="expected one replica, found 2; of several streams each would"):
        penstock.split(graph.SerializeToString(), **given)


def test_an_application_is_built(model: Path, tmp_path: Path) -> None:
    cpu = penstock.devices()["cpuset"][0]
    nodes = {"net": {"network": str(model), "inputs": {"x": "image"}, "devices": f"cpu:{cpu}"}}
    document = {"penstock_app": 1, "inputs": {"image": None}, "nodes": nodes, "outputs": {"y": "net.z"}}
    file = tmp_path / "app.yaml"
    file.write_text(json.dumps(document))
    with penstock.build(file, tmp_path / "app.penstock", budget=1, frames=[{"image": frame(3)}]) as pipeline:
        np.testing.assert_allclose(pipeline(frame(4))[0], expected(4))
    report = penstock.explain(tmp_path / "app.penstock")
    assert [node["name"] for node in report["nodes"]] == ["net"]
    assert "as it is written" in [way["name"] for way in report["simple"]]
    with pytest.raises(penstock.InvalidArgument, match="states and custom_ops are for a model"):
        penstock.build(file, states={"y": "image"})
    with pytest.raises(penstock.InvalidArgument, match="frames: frame 0: no input 'x'; the inputs are 'image'"):
        penstock.build(file, frames=[{"x": frame(3)}])


@pytest.mark.sweep(of=6)
def test_callables_of_an_application_are_tuned_with_it(model: Path, tmp_path: Path) -> None:
    calls = []

    def twice(x: np.ndarray) -> np.ndarray:
        calls.append(x.shape)
        return 2 * x

    nodes = {
        "twice": {"function": "twice", "inputs": {"x": "image"}},
        "net": {"network": str(model), "inputs": {"x": "twice.y"}},
    }
    port = "f32[1,4]"
    document = {"penstock_app": 1, "inputs": {"image": port}, "nodes": nodes, "outputs": {"y": "net.z"}}
    file, package = tmp_path / "app.yaml", tmp_path / "app.penstock"
    file.write_text(json.dumps(document))
    function = penstock.Function("twice", twice, {"x": port}, {"y": port})
    with penstock.build(file, package, budget=1, functions=[function]) as pipeline:
        assert len(calls) > 16  # Recorded, timed, raced.
        np.testing.assert_allclose(pipeline(frame(4))[0], expected(8))
    report = penstock.explain(package)
    assert [node["name"] for node in report["nodes"]] == ["twice", "net"]
    with penstock.load(package, functions=[function]) as pipeline:
        np.testing.assert_allclose(pipeline(frame(4))[0], expected(8))
    with pytest.raises(penstock.NotFound, match="twice"):
        penstock.build(file, budget=1)
    with pytest.raises(penstock.InvalidArgument, match="functions: are for an application"):
        penstock.build(model, budget=1, functions=[function])


def test_mistakes_are_named(model: Path, tmp_path: Path) -> None:
    with pytest.raises(penstock.InvalidArgument, match="goal: expected 'throughput' or 'latency', found 'speed'"):
        penstock.build(model, goal="speed")  # type: ignore[arg-type]
    with pytest.raises(penstock.InvalidArgument, match="budget: expected seconds, above 0, found 0"):
        penstock.build(model, budget=0)
    with pytest.raises(penstock.InvalidArgument, match="most_parts: expected 0 or more, found -1"):
        penstock.build(model, most_parts=-1)
    with pytest.raises(penstock.InvalidArgument, match="batch: .* expected the goal throughput, found latency"):
        penstock.build(model, batch=4, goal="latency")
    with pytest.raises(penstock.InvalidArgument, match="expected one number, N, auto or auto:N"):
        penstock.build(model, batch="4:2.5")
    with pytest.raises(penstock.NotFound, match="backend 'tensorrt': there is none"):
        penstock.build(model, backends=["tensorrt"])
    with pytest.raises(penstock.NotFound, match=r"rules '.*none.json': no such file"):
        penstock.build(model, rules=tmp_path / "none.json", budget=1)
    with penstock.split(model, output=tmp_path / "split.penstock"):
        pass
    with pytest.raises(penstock.NotFound, match="expected build.json"):
        penstock.explain(tmp_path / "split.penstock")


def test_ctrl_c_ends_a_build(run_script: Callable[..., str], model: Path, tmp_path: Path) -> None:
    text = """
import os, signal, sys, threading, penstock
told = []
def tell(what, share):
    told.append(what)
    if len(told) == 1: threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    penstock.build(sys.argv[1], sys.argv[2], budget=300, progress=tell)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert "interrupted" in run_script(text, model, tmp_path / "best.penstock")


def test_hosts_are_asked_by_the_options_of_the_way(model: Path, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text('penstock_hosts: 1\nhosts:\n  a: {address: "127.0.0.1:9", devices: "cpu:0"}\n')
    remote = {"remote": {"token_file": "/nothing/here"}}
    with pytest.raises(penstock.Unavailable, match="'/nothing/here'"):
        penstock.build(model, tmp_path / "none", hosts=hosts, budget=2, backend_options=remote)


@pytest.mark.sweep(of=6)
def test_hosts_are_asked_and_run(model: Path, tmp_path: Path) -> None:
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
    import local_hosts

    cpu = min(os.sched_getaffinity(0))
    with local_hosts.Worker(tmp_path / "a") as a, local_hosts.Worker(tmp_path / "b") as b:
        hosts = tmp_path / "hosts.yaml"
        named = "".join(
            f'  {name}: {{address: "{worker.address}", devices: "cpu:{cpu}"}}\n'
            for name, worker in {"a": a, "b": b}.items()
        )
        hosts.write_text("penstock_hosts: 1\nhosts:\n" + named)
        package = tmp_path / "p.penstock"
        options = {"budget": 4, "backends": ["onnxruntime"], "costs": tmp_path / "c.db"}
        with penstock.build(model, package, hosts=hosts, standby=True, **options) as pipeline:
            devices = [device for stage in pipeline.plan["stages"] for device in stage["devices"]]
            assert devices and all(device.startswith("127.0.0.1:") for device in devices)
            np.testing.assert_allclose(pipeline(frame(3))[0], expected(3))
        assert any(way["name"].startswith("the whole network on ") for way in penstock.explain(package)["simple"])
        app = tmp_path / "app.yaml"
        app.write_text(
            "penstock_app: 1\ninputs: {frame: 'f32[1,4]'}\noutputs: {z: net.z}\n"
            f"nodes: {{net: {{network: {model}, inputs: {{x: frame}}}}}}\n"
        )
        with penstock.build(app, package, hosts=hosts, **options) as pipeline:
            np.testing.assert_allclose(pipeline(frame(3))[0], expected(3))
        ways = [way["what"] for way in penstock.explain(package)["ways"] if not way["failure"]]
        assert any("net on 127.0.0.1:" in what for what in ways)
    with pytest.raises(penstock.Unavailable, match="no host can be reached"):
        penstock.build(model, tmp_path / "none", hosts=hosts, **options)
