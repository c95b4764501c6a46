"""penstock.build() and explain()."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from line import expected, frame

import penstock


@pytest.fixture(autouse=True)
def costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_COSTS", str(tmp_path / "costs.db"))


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


def test_it_is_built_by_ones_own_frames(tmp_path: Path) -> None:
    """y = table[i - 1000], which random integers are never in."""
    graph = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (int64[1] i) => (float[1] y)'
        " <float[4] table = {1, 2, 3, 4}, int64[1] offset = {1000}> { at = Sub(i, offset) y = Gather(table, at) }"
    )
    onnx.save(graph, tmp_path / "lookup.onnx")
    options = {"devices": f"cpu:{penstock.devices()['cpuset'][0]}", "budget": 1, "backends": ["onnxruntime"]}
    frames = [{"i": np.array([1000 + at], np.int64)} for at in range(4)]
    with penstock.build(tmp_path / "lookup.onnx", frames=frames, **options) as pipeline:
        np.testing.assert_array_equal(pipeline(frames[2]["i"])[0], [3])
    with pytest.raises(penstock.PenstockError, match="out of data bounds"):
        penstock.build(tmp_path / "lookup.onnx", **options)
    with pytest.raises(penstock.InvalidArgument, match="frames: expected a value of input 'i' in each frame"):
        penstock.build(tmp_path / "lookup.onnx", frames=[{"j": np.zeros(1)}], **options)


def test_mistakes_are_named(model: Path, tmp_path: Path) -> None:
    with pytest.raises(penstock.InvalidArgument, match="goal: expected 'throughput' or 'latency', found 'speed'"):
        penstock.build(model, goal="speed")  # type: ignore[arg-type]
    with pytest.raises(penstock.InvalidArgument, match="budget: expected seconds, above 0, found 0"):
        penstock.build(model, budget=0)
    with pytest.raises(penstock.InvalidArgument, match="most_parts: expected 0 or more, found -1"):
        penstock.build(model, most_parts=-1)
    with pytest.raises(penstock.NotFound, match="no backend 'tensorrt'"):
        penstock.build(model, backends=["tensorrt"])
    with pytest.raises(penstock.NotFound, match=r"rules '.*none.json': no such file"):
        penstock.build(model, rules=tmp_path / "none.json", budget=1)
    with penstock.split(model, output=tmp_path / "split.penstock"):
        pass
    with pytest.raises(penstock.NotFound, match="expected build.json"):
        penstock.explain(tmp_path / "split.penstock")


def test_ctrl_c_ends_a_build(run_script: Callable[..., str], model: Path, tmp_path: Path) -> None:
    text = """
import os, signal, sys, threading, time, penstock
def tell(what, share):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    penstock.build(sys.argv[1], sys.argv[2], budget=300, progress=tell)
except KeyboardInterrupt:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted")
"""
    assert "interrupted" in run_script(text, model, tmp_path / "best.penstock")
