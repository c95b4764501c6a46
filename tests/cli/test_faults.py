"""Backends with planted faults through `verify`: refused wherever the judge can tell, and right ones never."""

import os
from pathlib import Path

import numpy as np
import pytest
from conftest import save, value
from onnx import TensorProto, helper

FAULTS = ["zeros", "shifted", "stale", "other", "block", "bf16", "swapped"]
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", "no/such/folder"))
SHAPES = {
    "basic_pitch": ["--shape", "serving_default_input_2:0=1x43844x1"],
    "silero_vad_16k_op15": ["--constant", "sr=16000", "--shape", "input=1x576", "--shape", "state=2x1x128"],
    "super_resolution_10": ["--shape", "input=1x1x224x224"],
}


@pytest.fixture
def twins(tmp_path):
    """x [n,3,8,8] -> two outputs of equal type, and the largest place of one of them."""
    random = np.random.default_rng(0)
    weights = {name: random.standard_normal((4, 3, 3, 3)).astype(np.float32) for name in ("w1", "w2")}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1] * 4),
        helper.make_node("Conv", ["x", "w2"], ["b"], "second", pads=[1] * 4),
        helper.make_node("ArgMax", ["a"], ["place"], "largest", axis=1),
    ]
    outputs = [value("a", [1, 4, 8, 8]), value("b", [1, 4, 8, 8]), value("place", [1, 1, 8, 8], TensorProto.INT64)]
    return save(tmp_path, "twins", nodes, [value("x", [1, 3, 8, 8])], outputs, weights)


def quantised(tmp_path, blocks=5, channels=12, size=16):
    """A residual network with a step of int8 behind each node: one that flips early moves many values."""
    random = np.random.default_rng(1)
    nodes, weights = [], {"zero": np.int8(0)}

    def rounded(x):
        weights[x + "_step"] = np.float32(random.uniform(4, 6) / 127)
        step = [x + "_step", "zero"]
        nodes.append(helper.make_node("QuantizeLinear", [x, *step], [x + "_q"], x + "_quantize"))
        nodes.append(helper.make_node("DequantizeLinear", [x + "_q", *step], [x + "_d"], x + "_dequantize"))
        return x + "_d"

    def conv(x, name, inputs, gain):
        scale = gain / np.sqrt(inputs * 9)
        weights[name + "_w"] = (random.standard_normal((channels, inputs, 3, 3)) * scale).astype(np.float32)
        nodes.append(helper.make_node("Conv", [x, name + "_w"], [name], name + "_conv", pads=[1] * 4))
        return name

    def relu(x):
        nodes.append(helper.make_node("Relu", [x], [x + "_r"], x + "_relu"))
        return x + "_r"

    x = rounded(relu(conv(rounded("x"), "first", 3, 2)))
    for block in range(blocks):
        y = rounded(relu(conv(x, f"a{block}", channels, 1.4)))
        y = rounded(conv(y, f"b{block}", channels, 1))
        nodes.append(helper.make_node("Add", [x, y], [f"sum{block}"], f"add{block}"))
        x = rounded(relu(f"sum{block}"))
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["mean"], "pool"))
    nodes.append(helper.make_node("Conv", [rounded("mean"), "last_w"], ["last"], "last_conv"))
    weights["last_w"] = random.standard_normal((40, channels, 1, 1)).astype(np.float32)
    nodes.append(helper.make_node("Identity", [rounded("last")], ["y"], "end"))
    return save(tmp_path, "quantised", nodes, [value("x", [1, 3, size, size])], [value("y", [1, 40, 1, 1])], weights)


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_engines_that_round_a_quantised_network_as_its_file_says_are_right(well, tmp_path, backend):
    well("split", quantised(tmp_path), "--backend", backend, "--cut", "add2", "-o", "p.penstock")
    assert well("verify", "p.penstock", "--json").json["verdict"] == "right"


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "swapped"])
def test_a_fault_in_a_quantised_network_is_refused(penstock, well, synthetic_backends, tmp_path, fault):
    synthetic_backends(a={})
    well("split", quantised(tmp_path), "--backend", "synthetic_a", "-o", "p.penstock")
    assert well("verify", "p.penstock", "--json").json["verdict"] == "right"
    synthetic_backends(a={"faults": [{"do": fault, "on": "*"}]})
    outcome = penstock("verify", "p.penstock", "--json")
    assert (outcome.code, outcome.json["verdict"]) == (1, "wrong")


def saturated(folder):
    """Steps of a range that is known at run time only, of a Tanh that is -1 or 1 nearly everywhere: 127.5 steps."""
    random = np.random.default_rng(0)
    weights = {"zero": np.int8(0), "step": np.float32(0.01), "b": random.standard_normal(32).astype(np.float32)}
    for name, size in {"w1": (24, 32), "w2": (32, 6)}.items():
        weights[name] = random.integers(-100, 100, size).astype(np.int8)

    def product(x, w, y):
        made = [x + end for end in ("_q", "_step", "_zero", "_sum", "_float", "_scale")]
        return [
            helper.make_node("DynamicQuantizeLinear", [x], made[:3], x + "_quantize"),
            helper.make_node("MatMulInteger", [made[0], w, made[2], "zero"], [made[3]], x + "_product"),
            helper.make_node("Cast", [made[3]], [made[4]], x + "_cast", to=TensorProto.FLOAT),
            helper.make_node("Mul", [made[1], "step"], [made[5]], x + "_scale"),
            helper.make_node("Mul", [made[4], made[5]], [y], y + "_end"),
        ]

    nodes = product("x", "w1", "h")
    nodes += [helper.make_node("Add", ["h", "b"], ["sum"], "add"), helper.make_node("Tanh", ["sum"], ["t"], "tanh")]
    nodes += product("t", "w2", "y")
    return save(folder, "saturated", nodes, [value("x", [2, 5, 24])], [value("y", [2, 5, 6])], weights)


def test_values_between_two_steps_of_a_dynamic_range_are_right(well, tmp_path):
    well("split", saturated(tmp_path), "--backend", "openvino", "-o", "p.penstock")
    verdicts = [well("verify", "p.penstock", "--seed", str(seed), "--json").json["verdict"] for seed in range(6)]
    assert verdicts == ["right"] * 6


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "swapped"])
def test_a_fault_among_values_between_two_steps_is_refused(penstock, well, synthetic_backends, tmp_path, fault):
    synthetic_backends(a={"faults": [{"do": fault, "on": "*"}]})
    well("split", saturated(tmp_path), "--backend", "synthetic_a", "-o", "p.penstock")
    outcome = penstock("verify", "p.penstock", "--json")
    assert (outcome.code, outcome.json["verdict"]) == (1, "wrong")


def values_of(well, package, tmp_path):
    well("run", package, "--frames", "4", "--output", "out.npz")
    with np.load(tmp_path / "out.npz") as out:
        return {name: out[name].tobytes() for name in out.files}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_backend_is_refused(penstock, well, twins, synthetic_backends, fault):
    synthetic_backends(a={})
    well("split", twins, "--backend", "synthetic_a", "-o", "p.penstock")
    assert well("verify", "p.penstock", "--json").json["verdict"] == "right"
    synthetic_backends(a={"faults": [{"do": fault, "on": "*"}]})
    outcome = penstock("verify", "p.penstock", "--json")
    assert (outcome.code, outcome.json["verdict"]) == (1, "wrong")
    assert "output '" in outcome.err


def test_integers_alone_are_judged(penstock, well, synthetic_backends, tmp_path):
    """Labels of points: those of other frames, and a part of them, are refused."""
    weights = {"w": np.random.default_rng(0).standard_normal((5, 3, 3, 3)).astype(np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("ArgMax", ["c"], ["y"], "label", axis=1, keepdims=0),
    ]
    inputs, outputs = [value("x", [1, 3, 16, 16])], [value("y", [1, 16, 16], TensorProto.INT64)]
    save(tmp_path, "labels", nodes, inputs, outputs, weights)
    synthetic_backends(a={})
    well("split", "labels.onnx", "--backend", "synthetic_a", "-o", "p.penstock")
    report = well("verify", "p.penstock", "--json").json
    assert (report["verdict"], report["outputs"][0]["mismatches"]) == ("right", 0)
    for fault in ("zeros", "stale", "other", "block"):
        synthetic_backends(a={"faults": [{"do": fault, "on": "*"}]})
        outcome = penstock("verify", "p.penstock", "--json")
        assert (outcome.code, outcome.json["verdict"]) == (1, "wrong"), fault


@pytest.mark.sweep(of=3)
def test_a_wrong_last_row_of_a_batch_is_refused(penstock, well, twins, synthetic_backends):
    synthetic_backends(a={})
    well("split", twins, "--backend", "synthetic_a", "--batch", "4:1000", "-o", "p.penstock")
    assert well("verify", "p.penstock", "--json").json["verdict"] == "right"
    synthetic_backends(a={"faults": [{"do": "last_row", "on": "*"}]})
    outcome = penstock("verify", "p.penstock", "--json")
    assert (outcome.code, outcome.json["verdict"]) == (1, "wrong")


def test_every_model_for_several_frames_is_judged(penstock, well, twins, synthetic_backends):
    """Whether calls are ever so large is not left to chance; where frames are too few for it, a warning tells."""
    synthetic_backends(a={})
    well("split", twins, "--backend", "synthetic_a", "--replicas", "1", "--batch", "64:20", "-o", "p.penstock")
    outcome = well("verify", "p.penstock", "--json")
    assert (outcome.json["verdict"], outcome.json["frames"]) == ("right", 128 + 127), outcome
    assert [warning for warning in outcome.json["warnings"] if "held so many frames" in warning] == []
    outcome = well("verify", "p.penstock", "--frames", "3", "--json")
    assert any("16, 32, 64 ran" in warning for warning in outcome.json["warnings"]), outcome
    synthetic_backends(a={"faults": [{"do": "last_row", "on": "*"}]})
    outcome = penstock("verify", "p.penstock", "--json")
    assert (outcome.code, outcome.json["verdict"]) == (1, "wrong")


@pytest.mark.sweep(of=20)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", sorted(path.parent.name for path in MODELS.glob("*/model.onnx")))
def test_a_faulty_backend_is_refused_on_given_networks(penstock, well, synthetic_backends, tmp_path, name, fault):
    synthetic_backends(a={})
    options = SHAPES.get(name, [])
    well("split", MODELS / name / "model.onnx", *options, "--backend", "synthetic_a", "-o", "p.penstock")
    right = values_of(well, "p.penstock", tmp_path)
    judged = well("verify", "p.penstock", "--frames", "8", "--json").json
    assert judged["verdict"] == "right"
    synthetic_backends(a={"faults": [{"do": fault, "on": "*"}]})
    if values_of(well, "p.penstock", tmp_path) == right:
        pytest.skip(f"'{fault}' changes nothing here: one channel, or no outputs of equal type")
    outcome = penstock("verify", "p.penstock", "--frames", "8", "--json")
    # A quantised network that jumps by itself may leave it open whether a fault is such a jump.
    jumps = any(output["own_rate"] > 0.01 for output in judged["outputs"])
    assert outcome.json["verdict"] in (("wrong", "inconclusive") if jumps else ("wrong",)), outcome
