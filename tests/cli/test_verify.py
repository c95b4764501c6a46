"""penstock verify, and packages that somebody changed."""

import hashlib
import json

import numpy as np
import onnx
import pytest
from conftest import save, value
from onnx import TensorProto, helper, numpy_helper


def test_a_package_computes_what_the_model_computes(well, package, chain):
    for arguments in [[], ["--model", chain]]:
        report = well("verify", package, *arguments, "--frames", "30", "--json").json
        assert report["ok"] is True
        assert report["frames"] == 30
        (output,) = report["outputs"]
        assert (output["name"], output["values"], output["mismatches"]) == ("y", 30 * 2 * 4 * 4, 0)


@pytest.mark.parametrize("cut", ["conv", "norm", "split", "relu", "sigmoid", "concat", "residual"])
def test_branches_joins_and_residuals_may_be_cut_anywhere(well, branches, tmp_path, cut):
    well("split", branches, "--cut", cut, "-o", tmp_path / "p")
    report = well("verify", tmp_path / "p", "--model", branches, "--frames", "5", "--json").json
    assert (report["frames"], report["problems"]) == (5, [])


def test_the_text_says_what_the_reference_was(well, package, chain):
    assert "chain.onnx" in well("verify", package, "--model", chain).out
    assert "chain.onnx" in well("verify", package).out
    chain.unlink()
    assert "own stages" in well("verify", package).out


def test_the_reference_may_be_optimised(well, package, chain):
    report = well("verify", package, "--model", chain, "--optimised", "--json").json
    assert report["ok"] is True
    assert report["reference"].endswith(", optimised")


def test_the_engines_settings_may_be_given(penstock, well, package):
    report = well("verify", package, "--backend-option", "onnxruntime:graph_optimization_level=0", "--json").json
    assert report["ok"] is True
    refused = penstock("verify", package, "--backend-option", "onnxruntime:execution_mode=many")
    assert (refused.code, "execution_mode" in refused.error) == (1, True)


def test_parameters_and_zips_are_verified_too(well, chain, tmp_path):
    target = tmp_path / "p.penstock.zip"
    well("split", chain, "--cut", "1", "--parameter", "w2", "-o", target)
    assert well("verify", target, "--model", chain, "--json").json["ok"] is True


@pytest.mark.parametrize(
    "options",
    [("--policy", name) for name in ("drop_oldest", "drop_newest", "latest", "error")] + [("--max-age", "1")],
    ids=lambda options: options[1],
)
def test_all_frames_are_judged_and_measured_though_a_policy_would_drop_them(well, chain, tmp_path, options):
    well("split", chain, "--cut", "1", "--capacity", "1", *options, "-o", tmp_path / "p")
    report = well("verify", tmp_path / "p", "--frames", "40", "--json").json
    assert (report["verdict"], report["frames"], report["dropped"]) == ("right", 40, 0)
    measured = well("bench", tmp_path / "p", "--seconds", "0.6", "--json").json
    assert all(run["frames_per_second"] > 0 for run in measured["runs"])


def test_a_model_of_other_shapes_is_called_another(penstock, package, tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    save(tmp_path, "other", nodes, [value("x", ["n", 6])], [value("y", ["n", 6])])
    outcome = penstock("verify", package, "--model", "other.onnx", "--json")
    assert "'other.onnx' is not the model that the package was made from" in outcome.err
    (output,) = outcome.json["outputs"]
    assert (outcome.code, output["verdict"], output["values"]) == (3, "inconclusive", 0)
    refused = penstock("bench", package, "--model", "other.onnx")
    assert "--model 'other.onnx': not the model that package" in refused.error


def test_another_models_outputs_are_not_equal(penstock, package, chain, tmp_path):
    model = onnx.load(chain)
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor) * np.float32(1.01)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    onnx.save(model, tmp_path / "other.onnx")
    outcome = penstock("verify", package, "--model", "other.onnx", "--json")
    assert outcome.code == 1
    assert outcome.json["ok"] is False
    assert "not the model that the package was made from" in outcome.err
    assert outcome.json["problem_count"] == 20
    assert "frame 0: output 'y'" in outcome.err
    assert "outside the tolerance" in outcome.err


def test_a_model_changed_since_is_said(well, package, chain):
    before = well("verify", package, "--frames", "1", "--json").json["reference"]
    chain.write_bytes(chain.read_bytes() + b"\0")
    after = well("verify", package, "--frames", "1", "--json").json["reference"]
    assert before.startswith("the whole model") and "is gone or changed since the package was made" in after


def test_a_model_with_other_inputs_is_refused(penstock, package, lookup):
    outcome = penstock("verify", package, "--model", lookup)
    assert outcome.code == 1
    assert "'i'" in outcome.error


def test_integers_of_a_known_range_are_among_the_inputs_that_may_be_at_fault(penstock, well, tmp_path):
    """The depth of a OneHot is drawn from a range, and does not fit the weights behind it."""
    nodes = [
        helper.make_node("OneHot", ["i", "d", "v"], ["o"]),
        helper.make_node("MatMul", ["o", "w"], ["y"]),
    ]
    inputs = [value("i", [3], TensorProto.INT64), value("d", [], TensorProto.INT64)]
    constants = {"v": np.array([0, 1], np.float32), "w": np.ones((70, 5), np.float32)}
    file = save(tmp_path, "one_hot", nodes, inputs, [value("y", [3, 5])], constants)
    well("split", file, "-o", "p")
    assert "the inputs were random, integers in 'i', 'd': bind what never changes" in penstock("verify", "p").err


def test_inputs_that_the_model_itself_refuses_are_said_to_be_at_fault(penstock, well, lookup_of_squares, tmp_path):
    well("split", lookup_of_squares, "--cut", "square", "-o", "p")
    outcome = penstock("verify", "p", "--integer-limit", "1000", "--frames", "1", "--json")
    assert outcome.code == 3
    assert (outcome.json["verdict"], outcome.json["unjudged"], outcome.json["problems"]) == ("inconclusive", 1, [])
    assert "the reference fails too; the inputs were random, integers in 'i': bind what never changes" in outcome.err
    assert "give frames that come out (--input)" in outcome.json["why_unjudged"]
    text = penstock("verify", "p", "--integer-limit", "1000", "--frames", "1").out
    assert "inconclusive: 1 frame (1 not judged), 0 problems" in text
    np.savez(tmp_path / "i.npz", i=np.array([0, 9]))
    outcome = penstock("verify", "p", "--inputs", "i.npz")
    assert "the reference fails too" in outcome.error
    assert "random" not in outcome.error


@pytest.mark.parametrize("command", ["verify", "run", "show", "bench"])
def test_a_changed_byte_is_refused_by_every_command(penstock, package, command):
    stage = package / "stages/1.onnx"
    changed = bytearray(stage.read_bytes())
    changed[len(changed) // 2] ^= 1
    stage.write_bytes(changed)
    outcome = penstock(command, package)
    assert outcome.code == 1
    assert "stages/1.onnx" in outcome.error


def test_a_missing_file_is_named(penstock, package):
    (package / "stages/0.onnx").unlink()
    assert "stages/0.onnx" in penstock("verify", package).error


def edit(package, change):
    file = package / "plan.json"
    plan = json.loads(file.read_text())
    change(plan)
    file.write_text(json.dumps(plan))


def test_a_device_that_is_not_here_is_named(penstock, package, cpu):
    file = package / "plan.json"
    file.write_text(file.read_text().replace(f'"cpu:{cpu}"', '"cpu:99"'))
    outcome = penstock("run", package)
    assert outcome.code == 1
    assert "cpu:99" in outcome.error


def test_another_engine_version_is_a_warning(well, package):
    def change(plan):
        plan["origin"]["engines"]["onnxruntime"] = "1.2.3"

    edit(package, change)
    outcome = well("verify", package, "--json")
    assert "1.2.3" in outcome.err
    assert any("1.2.3" in warning for warning in outcome.json["warnings"])


def test_another_cpu_is_a_warning_with_advice(well, package):
    edit(package, lambda plan: plan["origin"].update(cpu="another"))
    assert "another CPU; check it with 'penstock verify'" in well("run", package, "--frames", "2").err


def test_what_is_no_package_is_refused(penstock, chain, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.zip").write_text("this is no zip")
    for path in [chain, tmp_path / "folder", tmp_path / "text.zip", tmp_path / "absent.zip"]:
        outcome = penstock("verify", path)
        assert outcome.code == 1
        assert str(path) in outcome.error


def save_network(path, nodes, output, constants=(), kind=TensorProto.FLOAT):
    """x [1,64] -> y."""
    return save(path.parent, path.stem, nodes, [value("x", [1, 64])], [value("y", output, kind)], constants)


def test_the_verdict_says_what_was_allowed_and_why(well, package):
    (output,) = well("verify", package, "--json").json["outputs"]
    assert output["verdict"] == "right"
    assert 0 < output["floor"] <= output["bf16"] / 2
    assert output["floor"] == pytest.approx(8 * output["own_rounding"])
    assert "8 times the reference's own rounding" in output["allowed"]
    assert "max|e|" in well("verify", package).out


def test_outputs_that_are_all_the_same_are_inconclusive(penstock, well, tmp_path):
    """A sigmoid far from 0: whatever goes in, 1 comes out, so that a stale output would pass."""
    nodes = [helper.make_node("Add", ["x", "far"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"])]
    saturated = save_network(tmp_path / "saturated.onnx", nodes, [1, 64], [("far", np.float32(20000))])
    well("split", saturated, "-o", "p")
    outcome = penstock("verify", "p", "--json")
    assert outcome.code == 3, outcome
    assert (outcome.json["ok"], outcome.json["verdict"]) == (False, "inconclusive")
    assert "output 'y'" in outcome.err and "give frames" in outcome.err and "--input" in outcome.err
    np.save(tmp_path / "x.npy", np.linspace(-20010, -19990, 64, dtype=np.float32)[None])
    assert well("verify", "p", "--input", "x=x.npy", "--json").json["verdict"] == "right"


def test_one_class_for_all_frames_is_judged_on_other_frames(well, tmp_path):
    """Which of two numbers is larger: the four frames of seed 6 have one answer, at any scale."""
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("ArgMax", ["a"], ["y"], axis=1, keepdims=0)]
    save(tmp_path, "class", nodes, [value("x", [1, 2])], [value("y", [1], TensorProto.INT64)])
    well("split", "class.onnx", "-o", "p")
    (output,) = well("verify", "p", "--frames", "4", "--seed", "6", "--json").json["outputs"]
    assert (output["verdict"], output["told_apart"], output["frames_scaled"]) == ("right", True, 1)


def test_a_class_by_brightness_is_judged_on_dark_and_bright_pictures(well, tmp_path):
    """Noise over the whole range has one mean, and so one class."""
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["f"], ["mean"], axes=[1]),
        helper.make_node("Concat", ["mean", "limit"], ["both"], axis=1),
        helper.make_node("ArgMax", ["both"], ["y"], axis=1, keepdims=0),
    ]
    inputs, outputs = [value("x", [1, 4096], TensorProto.UINT8)], [value("y", [1], TensorProto.INT64)]
    save(tmp_path, "bright", nodes, inputs, outputs, {"limit": np.float32([[160]])})
    well("split", "bright.onnx", "-o", "p")
    (output,) = well("verify", "p", "--json").json["outputs"]
    assert (output["verdict"], output["told_apart"]) == ("right", True)


def weighted_sum():
    """Of steps, each by its own share, as in attention: of one step the share is 1, whatever the weights are."""
    return [
        helper.make_node("MatMul", ["x", "w"], ["score"]),
        helper.make_node("Softmax", ["score"], ["share"], axis=1),
        helper.make_node("Mul", ["x", "share"], ["part"]),
        helper.make_node("ReduceSum", ["part", "axis"], ["y"], keepdims=0),
    ]


def save_weighted_sum(folder, name, weights):
    nodes = weighted_sum()
    save(folder, name, nodes, [value("x", ["n", "steps", 8])], [value("y", ["n", 8])], {"w": weights, "axis": [1]})


def test_open_sizes_are_judged_at_others_than_the_usual_ones(penstock, well, tmp_path):
    weights = np.random.default_rng(1).standard_normal((8, 1), np.float32)
    save_weighted_sum(tmp_path, "right", weights)
    save_weighted_sum(tmp_path, "wrong", weights[::-1].copy())
    well("split", "right.onnx", "-o", "p")
    right = well("verify", "p", "--json")
    assert (right.json["verdict"], right.json["other_sizes"]) == ("right", "x=2x5x8")
    well("split", "wrong.onnx", "-o", "w")
    wrong = penstock("verify", "w", "--model", "right.onnx")
    assert wrong.code == 1 and "sizes are open: frames of x=2x5x8 were tried too" in wrong.out
    assert "with x=2x5x8: frame 0: output 'y': " in wrong.err


def test_open_sizes_are_judged_at_others_where_states_are_kept_too(penstock, well, tmp_path):
    weights = np.random.default_rng(1).standard_normal((8, 1), np.float32)
    states = ["--state", "total_out=total"]
    for name, weight in {"right": weights, "wrong": weights[::-1].copy()}.items():
        nodes = [*weighted_sum(), helper.make_node("Add", ["total", "y"], ["total_out"])]
        inputs = [value("x", [1, "steps", 8]), value("total", [1, 8])]
        outputs = [value("y", [1, 8]), value("total_out", [1, 8])]
        save(tmp_path, name, nodes, inputs, outputs, {"w": weight, "axis": [1]})
    well("split", "right.onnx", *states, "-o", "p")
    right = well("verify", "p", "--json")
    assert (right.json["verdict"], right.json["other_sizes"]) == ("right", "x=1x5x8")
    well("split", "wrong.onnx", *states, "-o", "w")
    wrong = penstock("verify", "w", "--model", "right.onnx")
    assert wrong.code == 1 and "sizes are open: frames of x=1x5x8 were tried too" in wrong.out


def test_a_network_that_takes_one_size_alone_is_warned_of(well, tmp_path):
    """Nothing in the file says that the sizes must be 1 and 7."""
    nodes = [
        helper.make_node("Shape", ["x"], ["size"]),
        helper.make_node("Sub", ["size", "less"], ["index"]),
        helper.make_node("Gather", ["table", "index"], ["one"]),
        helper.make_node("ReduceProd", ["one"], ["factor"], keepdims=0),
        helper.make_node("Mul", ["x", "factor"], ["y"]),
    ]
    weights = {"less": [1, 1], "table": np.float32([2])}
    save(tmp_path, "one", nodes, [value("x", ["n", "m"])], [value("y", ["n", "m"])], weights)
    well("split", "one.onnx", "-o", "p")
    outcome = well("verify", "p")
    assert "frames of x=1x1 alone were tried" in outcome.err and "--shape" in outcome.err
    assert "were tried too" not in outcome.out


@pytest.mark.parametrize(("fault", "verdict"), [(None, "right"), ("zeros", "wrong"), ("other", "wrong")])
def test_what_usual_numbers_do_not_change_is_judged_on_larger_ones(
    penstock, well, synthetic_backends, tmp_path, fault, verdict
):
    nodes = [helper.make_node("Add", ["x", "far"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"])]
    save_network(tmp_path / "low.onnx", nodes, [1, 64], [("far", np.float32(-60))])
    synthetic_backends(a={"faults": [{"do": fault, "on": "*"}]} if fault else {})
    well("split", "low.onnx", "--backend", "synthetic_a", "-o", "p")
    outcome = penstock("verify", "p", "--json")
    (output,) = outcome.json["outputs"]
    assert (outcome.code, output["verdict"], output["frames_scaled"]) == (int(verdict == "wrong"), verdict, 64), outcome
    assert "64 times as large" in penstock("verify", "p").out


def test_a_failure_on_larger_numbers_is_told(penstock, well, synthetic_backends, tmp_path):
    nodes = [helper.make_node("Add", ["x", "far"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"])]
    save_network(tmp_path / "low.onnx", nodes, [1, 64], [("far", np.float32(-60))])
    synthetic_backends(a={"faults": [{"do": "refuse", "on": "*", "when": "run", "after": 25}]})
    well("split", "low.onnx", "--backend", "synthetic_a", "-o", "p")
    outcome = penstock("verify", "p", "--json")
    assert (outcome.code, outcome.json["ok"]) == (1, False), outcome
    assert "with random values 64 times as large: stage 'stage0': frame" in outcome.err


@pytest.mark.parametrize(("changed", "code"), [(2**-23, 3), (2**-5, 1)])
def test_a_rounding_between_two_steps_is_no_proof(penstock, well, tmp_path, changed, code):
    """Half of a sum of two steps lies between two: any engine rounds it its own way, as a changed last bit does."""
    random = np.random.default_rng(0)

    def network(name, factor):
        weights = {"s": np.float32(0.1), "t": np.float32(0.2 * (1 + factor)), "z": np.int8(0)}
        weights |= {"k": random.integers(-90, 90, (1, 64)).astype(np.float32), "w": np.eye(64, dtype=np.float32)}
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
            helper.make_node("Mul", ["k", "s"], ["steps"]),
            helper.make_node("Add", ["d", "steps"], ["a"], "sum"),
            helper.make_node("QuantizeLinear", ["a", "t", "z"], ["h"]),
            helper.make_node("DequantizeLinear", ["h", "t", "z"], ["e"]),
            helper.make_node("MatMul", ["e", "w"], ["y"], "product"),
        ]
        return save(tmp_path, name, nodes, [value("x", [1, 64])], [value("y", [1, 64])], weights)

    random_state = random.bit_generator.state
    network("asked", 0)
    random.bit_generator.state = random_state
    well("split", network("rounded", changed), "--cut", "sum", "-o", "p")
    outcome = penstock("verify", "p", "--model", "asked.onnx", "--json")
    assert outcome.code == code, outcome
    if code == 3:
        assert "where its inputs or its quantisation steps change in the last bits" in outcome.err


@pytest.mark.parametrize("cut", [None, "first", "second"])
def test_large_products_of_eight_bits_are_not_cut_off(well, tmp_path, cut):
    """ONNX Runtime sums two of them in sixteen bits where the processor has nothing better, if it may."""
    random = np.random.default_rng(0)
    nodes, x = [], "x"
    weights = {"s": np.float32(0.02), "z": np.int8(0), "m": random.normal(size=(8, 5)).astype(np.float32)}
    for name, channels in (("first", 3), ("second", 8)):
        weights[name + "_w"] = random.integers(-127, 127, (8, channels, 3, 3)).astype(np.int8)
        weights[name + "_k"] = random.uniform(0.001, 0.011, 8).astype(np.float32)
        weights[name + "_c"] = np.zeros(8, np.int8)
        nodes += [
            helper.make_node("QuantizeLinear", [x, "s", "z"], [name + "_q"]),
            helper.make_node("DequantizeLinear", [name + "_q", "s", "z"], [name + "_d"]),
            helper.make_node("DequantizeLinear", [name + "_w", name + "_k", name + "_c"], [name + "_f"], axis=0),
            helper.make_node("Conv", [name + "_d", name + "_f"], [name + "_y"], name),
        ]
        x = name + "_y"
    nodes += [
        helper.make_node("QuantizeLinear", [x, "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("ReduceMean", ["d"], ["r"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["r", "m"], ["y"]),
    ]
    model = save(tmp_path, "eights", nodes, [value("x", [1, 3, 12, 12])], [value("y", [1, 5])], weights)
    well("split", model, *(["--cut", cut] if cut else []), "--backend", "onnxruntime", "-o", "p")
    assert well("verify", "p", "--json").json["verdict"] == "right"


def test_what_depends_on_shapes_alone_is_right(well, tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Cast", ["sizes"], ["y"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Relu", ["x"], ["z"], "relu"),
    ]
    model = save(tmp_path, "sizes", nodes, [value("x", ["n", 3])], [value("y", [2]), value("z", ["n", 3])])
    well("split", model, "--cut", "relu", "-o", "p")
    assert well("verify", "p", "--json").json["verdict"] == "right"


def test_rows_that_are_small_beside_others_are_told(well, tmp_path):
    """As a detector's classes beside the pixels of its boxes."""
    nodes = [helper.make_node("Mul", ["x", "sizes"], ["y"])]
    sizes = np.float32([600, 600, 0.001, 0.001, 0.001]).reshape(1, 5, 1)
    model = save(tmp_path, "boxes", nodes, [value("x", [1, 5, 64])], [value("y", [1, 5, 64])], {"sizes": sizes})
    well("split", model, "-o", "p")
    (output,) = well("verify", "p", "--json").json["outputs"]
    assert "in 3 of the 5 rows of axis 1 no value is larger than that" in output["allowed"]


def test_the_mask_of_a_dropout_that_keeps_all_is_right(well, tmp_path):
    nodes = [helper.make_node("Dropout", ["x"], ["y", "mask"], "drop")]
    outputs = [value("y", [1, 8]), value("mask", [1, 8], TensorProto.BOOL)]
    model = save(tmp_path, "drop", nodes, [value("x", [1, 8])], outputs)
    well("split", model, "-o", "p")
    assert well("verify", "p", "--json").json["verdict"] == "right"


def test_a_dropout_that_trains_to_drop_nothing_draws_nothing(well, tmp_path):
    nodes = [helper.make_node("Dropout", ["x", "ratio", "training"], ["y", "mask"], "drop")]
    outputs = [value("y", [1, 8]), value("mask", [1, 8], TensorProto.BOOL)]
    constants = {"ratio": np.float32(0), "training": np.bool_(True)}
    model = save(tmp_path, "drop", nodes, [value("x", [1, 8])], outputs, constants)
    well("split", model, "-o", "p")
    assert well("verify", "p", "--json").json["verdict"] == "right"


def test_a_list_is_as_long_as_the_one_that_it_is_mapped_from(well, tmp_path):
    body = helper.make_graph(
        [helper.make_node("Relu", ["one"], ["other"])], "body", [value("one", [1, 4])], [value("other", [1, 4])]
    )
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["two"]),
        helper.make_node("SequenceMap", ["two"], ["mapped"], body=body),
        helper.make_node("SequenceLength", ["mapped"], ["count"]),
        helper.make_node("SequenceAt", ["mapped", "first"], ["y"]),
    ]
    outputs = [value("count", [], TensorProto.INT64), value("y", [1, 4])]
    model = save(tmp_path, "mapped", nodes, [value("x", [1, 4])], outputs, {"first": np.int64(0)})
    well("split", model, "-o", "p")
    assert well("verify", "p", "--json").json["verdict"] == "right"


def test_how_many_are_found_is_told_by_values(penstock, well, tmp_path):
    """Where no frame has one over the limit, a package that always says 0 would pass."""
    nodes = [
        helper.make_node("Greater", ["x", "limit"], ["over"]),
        helper.make_node("NonZero", ["over"], ["places"]),
        helper.make_node("Transpose", ["places"], ["turned"]),
        helper.make_node("Shape", ["turned"], ["count"], "count"),
        helper.make_node("Relu", ["x"], ["y"], "relu"),
    ]
    outputs = [value("count", [2], TensorProto.INT64), value("y", [1, 4])]
    model = save(tmp_path, "found", nodes, [value("x", [1, 4])], outputs, {"limit": np.float32(1e9)})
    well("split", model, "-o", "p")
    outcome = penstock("verify", "p", "--json")
    assert [output["verdict"] for output in outcome.json["outputs"]] == ["inconclusive", "right"]
    frames = np.array([[[0, 0, 0, 2e9]], [[2e9, 0, 2e9, 0]]], np.float32)
    np.savez(tmp_path / "x.npz", **{f"{i}/x": x for i, x in enumerate(frames)})
    assert well("verify", "p", "--inputs", "x.npz", "--json").json["verdict"] == "right"


def test_what_an_eye_is_made_of_is_a_shape(well, tmp_path):
    """No frame's values change it, so that frames that it does not tell apart are no doubt."""
    nodes = [helper.make_node("EyeLike", ["x"], ["e"], "eye", k=1), helper.make_node("Neg", ["e"], ["y"], "neg")]
    model = save(tmp_path, "eye", nodes, [value("x", ["n", "m"])], [value("y", ["n", "m"])])
    well("split", model, "--cut", "eye", "-o", "p")
    assert well("verify", "p", "--json").json["verdict"] == "right"


@pytest.mark.parametrize("far", [-12, -18])
def test_sigmoids_near_zero_are_wrong_on_no_engine(well, tmp_path, far):
    """Engines differ there by about a unit in the last place of 1, which may be more than the value."""
    if not any(one["name"] == "openvino" and one["available"] for one in well("backends", "--json").json["backends"]):
        pytest.skip("needs OpenVINO")
    nodes = [helper.make_node("Add", ["x", "far"], ["a"]), helper.make_node("Sigmoid", ["a"], ["s"])]
    nodes.append(helper.make_node("Reshape", ["s", "shape"], ["y"]))
    constants = [("far", np.float32(far)), ("shape", np.array([64], np.int64))]
    save_network(tmp_path / "low.onnx", nodes, [64], constants)
    well("split", "low.onnx", "--backend", "openvino", "-o", "p")
    report = well("verify", "p", "--json").json
    (output,) = report["outputs"]
    assert "what its last function rounds" in output["allowed"] or output["frames_scaled"] != 1
    assert output["largest_error"] > 0
    assert output["rate"] == 0


def small_on_a_large_offset(path):
    """A normalisation finds a hundredth of what it normalises rounded away: two right engines differ by percents."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((64, 64)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["product"]),
        helper.make_node("Mul", ["product", "small"], ["signal"]),
        helper.make_node("Add", ["signal", "large"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "one"], ["normal"], axis=-1),
        helper.make_node("MatMul", ["normal", "weights"], ["y"]),
    ]
    constants = [("weights", weights), ("small", np.float32(1e-4)), ("large", np.float32(100))]
    constants.append(("one", np.ones(64, np.float32)))
    ends = [value("x", [1, 16, 64])], [value("y", [1, 16, 64])]
    return save(path, "offset", nodes, *ends, constants)


@pytest.mark.parametrize("engine", ["openvino", "onednn"])
def test_what_rounding_inside_makes_of_a_network_is_no_fault(well, tmp_path, engine):
    if not any(one["name"] == engine and one["available"] for one in well("backends", "--json").json["backends"]):
        pytest.skip(f"needs {engine}")
    well("split", small_on_a_large_offset(tmp_path), "--backend", engine, "-o", "p")
    report = well("verify", "p", "--json").json
    assert report["verdict"] == "right"
    assert report["outputs"][0]["mismatches"] > 0


def test_faults_of_a_network_that_rounding_changes_are_found(penstock, well, tmp_path):
    """A package is compared with another model, of which the output is half as large again."""
    model = small_on_a_large_offset(tmp_path)
    well("split", model, "-o", "p")
    changed = onnx.load(model)
    changed.graph.node.append(helper.make_node("Mul", ["exact", "factor"], ["y"]))
    changed.graph.node[4].output[0] = "exact"
    changed.graph.initializer.append(numpy_helper.from_array(np.float32(1.5), "factor"))
    onnx.save(changed, tmp_path / "changed.onnx")
    outcome = penstock("verify", "p", "--model", "changed.onnx", "--json")
    assert outcome.code == 1
    assert outcome.json["verdict"] == "wrong"


def test_silence_before_speech_does_not_blind_the_judge(penstock, well, tmp_path):
    """What is allowed is measured on frames that say something, and given silence alone is told from random frames."""
    random = np.random.default_rng(0)
    weights = {"w": random.standard_normal((64, 64)).astype(np.float32)}
    save_network(tmp_path / "net.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [1, 64], weights.items())
    well("split", "net.onnx", "-o", "p")
    speech = random.standard_normal((20, 1, 64)).astype(np.float32)
    speech[:16] = 0
    np.savez(tmp_path / "speech.npz", **{f"{i}/x": frame for i, frame in enumerate(speech)})
    report = well("verify", "p", "--inputs", "speech.npz", "--json").json
    (output,) = report["outputs"]
    assert (output["verdict"], report["frames"], output["own_rounding"] > 0) == ("right", 20, True)
    np.savez(tmp_path / "silence.npz", **{f"{i}/x": frame for i, frame in enumerate(speech[:16])})
    assert well("verify", "p", "--inputs", "silence.npz", "--json").json["outputs"][0]["told_apart"] is True


def test_one_frame_that_fails_takes_the_floor_from_no_other(penstock, well, tmp_path):
    """Its failure is told; what is allowed is measured on those that come out."""
    weights = {"table": np.ones((4, 8), np.float32) * 0.3}
    nodes = [helper.make_node("Gather", ["table", "i"], ["g"]), helper.make_node("Mul", ["g", "x"], ["m"])]
    nodes.append(helper.make_node("Exp", ["m"], ["y"]))
    inputs = [value("i", [1], TensorProto.INT64), value("x", [1, 8])]
    save(tmp_path, "gather", nodes, inputs, [value("y", [1, 8])], weights)
    well("split", "gather.onnx", "-o", "p")
    x = np.random.default_rng(0).standard_normal((6, 1, 8)).astype(np.float32)
    frames = {f"{n}/x": x[n] for n in range(6)} | {f"{n}/i": np.array([n % 4 if n else 9], np.int64) for n in range(6)}
    np.savez(tmp_path / "frames.npz", **frames)
    outcome = penstock("verify", "p", "--inputs", "frames.npz", "--json")
    assert (outcome.code, outcome.json["problem_count"]) == (1, 1), outcome
    (output,) = outcome.json["outputs"]
    assert (output["verdict"], output["own_rounding"] > 0, output["told_apart"]) == ("right", True, True)


def test_tiny_values_are_judged(penstock, well, tmp_path):
    """Outputs of 1e-20 are no zeros: a network that gives twice as much is not taken for it."""
    for name, factor in [("tiny", 1e-20), ("other", 2e-20)]:
        node = helper.make_node("Mul", ["x", "factor"], ["y"])
        save_network(tmp_path / f"{name}.onnx", [node], [1, 64], [("factor", np.float32(factor))])
    well("split", "tiny.onnx", "-o", "p")
    assert well("verify", "p", "--json").json["verdict"] == "right"
    assert penstock("verify", "p", "--model", "other.onnx", "--json").json["verdict"] == "wrong"


def test_integers_may_differ_as_often_as_the_references_own_only(penstock, well, tmp_path):
    """Places of the largest values: the same but for ties; those of another network are refused."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((64, 32)).astype(np.float32)
    for name, columns in [("places", weights), ("other", weights[:, ::-1].copy())]:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("ArgMax", ["m"], ["y"], axis=1)]
        save_network(tmp_path / f"{name}.onnx", nodes, [1, 1], [("w", columns)], TensorProto.INT64)
    well("split", "places.onnx", "-o", "p")
    report = well("verify", "p", "--json").json
    assert (report["verdict"], report["outputs"][0]["mismatches"]) == ("right", 0)
    assert report["outputs"][0]["rate"] <= 0.01
    assert penstock("verify", "p", "--model", "other.onnx").code == 1


@pytest.mark.parametrize("by", [1e-3, 1, 30])
def test_a_backend_that_computes_something_else_is_refused(penstock, well, chain, synthetic_backends, by):
    synthetic_backends(a={"faults": [{"do": "wrong", "on": "*", "by": by}]})
    well("split", chain, "--backend", "synthetic_a", "-o", "p")
    outcome = penstock("verify", "p", "--json")
    assert (outcome.code, outcome.json["verdict"]) == (1, "wrong")
    assert outcome.json["outputs"][0]["reason"].startswith("frame 0: output 'y': ")


def test_a_backend_that_computes_the_same_is_right(well, chain, synthetic_backends):
    synthetic_backends(a={})
    well("split", chain, "--backend", "synthetic_a", "-o", "p")
    assert well("verify", "p", "--json").json["verdict"] == "right"


def test_a_moved_package_verifies(well, package, tmp_path):
    moved = tmp_path / "elsewhere"
    package.rename(moved)
    assert well("verify", moved, "--json").json["ok"] is True


def test_a_constant_output_is_right_whatever_the_frames(well, tmp_path):
    """As the anchors of a detector are, beside an output that tells frames apart; and one without values."""
    weights = {"anchors": np.arange(6, dtype=np.float32).reshape(2, 3), "none": np.zeros((0, 2), np.float32)}
    nodes = [
        helper.make_node("Relu", ["x"], ["y"], "relu"),
        helper.make_node("Identity", ["anchors"], ["a"], "copy"),
        helper.make_node("Concat", ["none", "none"], ["e"], "empty", axis=0),
    ]
    outputs = [value("y", [1, 4]), value("a", [2, 3]), value("e", [0, 2])]
    model = save(tmp_path, "anchors", nodes, [value("x", [1, 4])], outputs, weights)
    well("split", model, "-o", "p.penstock")
    report = well("verify", "p.penstock", "--json").json
    assert [output["verdict"] for output in report["outputs"]] == ["right"] * 3


@pytest.mark.sweep(of=3)
def test_random_numbers_are_said_to_be_what_nothing_can_be_said_of(penstock, well, tmp_path):
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["r"], "noise"),
        helper.make_node("Add", ["x", "r"], ["a"], "add"),
        helper.make_node("Relu", ["a"], ["y"], "relu"),
        helper.make_node("Neg", ["x"], ["z"], "neg"),
    ]
    outputs = [value("y", [2, 8]), value("z", [2, 8])]
    model = save(tmp_path, "noisy", nodes, [value("x", [2, 8])], outputs)
    well("split", model, "--cut", "add", "-o", "split.penstock")
    well("build", model, "-o", "built.penstock", "--budget", "1s", "--backends", "onnxruntime")
    for package in ("split.penstock", "built.penstock"):
        outcome = penstock("verify", package, "--json")
        random, sure = outcome.json["outputs"]
        assert (outcome.code, random["verdict"], sure["verdict"]) == (3, "inconclusive", "right")
        assert "'y' depends on node 'noise' (RandomNormalLike), which draws random numbers" in random["reason"]


def test_an_engine_may_keep_more_digits_than_f16_between_two_nodes(well, tmp_path):
    random = np.random.default_rng(3)
    weights = {name: (random.standard_normal((16, 16)) / 4).astype(np.float16) for name in ("w", "v")}
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], "narrow", to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["h", "w"], ["m"], "first"),
        helper.make_node("Relu", ["m"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "v"], ["n"], "second"),
        helper.make_node("Cast", ["n"], ["y"], "wide", to=TensorProto.FLOAT),
    ]
    model = save(tmp_path, "half", nodes, [value("x", [4, 16])], [value("y", [4, 16])], weights)
    for cut in ("narrow", "first", "relu", "second"):
        well("split", model, "--cut", cut, "-o", f"{cut}.penstock")
        output = well("verify", f"{cut}.penstock", "--json").json["outputs"][0]
        assert (output["verdict"], "what f16 gives" in output["allowed"]) == ("right", True)


def f16_network(folder, random):
    """From f32 to f16 and back; an average leaves nothing of how its input was rounded."""
    weights = {
        "w": random.standard_normal((16, 3, 3, 3)) / 5,
        "g": np.ones(16),
        "b": np.zeros(16),
        "v": random.standard_normal((16, 10)),
    }
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], "narrow", to=TensorProto.FLOAT16),
        helper.make_node("Conv", ["h", "w"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["a"], "pool"),
        helper.make_node("Flatten", ["a"], ["f"], "flatten"),
        helper.make_node("LayerNormalization", ["f", "g", "b"], ["l"], "normalise"),
        helper.make_node("MatMul", ["l", "v"], ["m"], "product"),
        helper.make_node("Softmax", ["m"], ["s"], "softmax"),
        helper.make_node("Cast", ["s"], ["y"], "wide", to=TensorProto.FLOAT),
    ]
    ends = [value("x", [1, 3, 32, 32])], [value("y", [1, 10])]
    return save(folder, "half", nodes, *ends, {name: array.astype(np.float16) for name, array in weights.items()})


@pytest.mark.parametrize("seed", range(4))
def test_no_stages_in_f16_are_wrong_for_their_rounding(penstock, well, tmp_path, seed):
    model = f16_network(tmp_path, np.random.default_rng(seed))
    for cut in ("conv", "pool", "normalise", "product", "softmax"):
        well("split", model, "--cut", "relu", "--cut", cut, "-o", "cut.penstock")
        outcome = penstock("verify", "cut.penstock", "--frames", "12")
        assert outcome.code in (0, 3), (cut, outcome)


def wide_network(folder, name, given, nodes):
    """A network of f32 of which an input is of f16 and not of the type that is computed in."""
    random = np.random.default_rng(5)
    weights = {"w": random.standard_normal((32, 64)) / 6, "v": random.standard_normal((64, 8)) / 8}
    inner = [
        helper.make_node("MatMul", ["wide", "w"], ["m"], "first"),
        helper.make_node("Tanh", ["m"], ["t"], "bend"),
        helper.make_node("MatMul", ["t", "v"], ["y"], "second"),
    ]
    constants = {name: array.astype(np.float32) for name, array in weights.items()}
    return save(folder, name, nodes + inner, given, [value("y", [4, 8])], constants)


def stored_in_half(folder):
    """What it reads is in f16, moved and cast."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["h"], "turn", perm=[1, 0]),
        helper.make_node("Cast", ["h"], ["wide"], "cast", to=TensorProto.FLOAT),
    ]
    return wide_network(folder, "stored", [value("x", [32, 4], TensorProto.FLOAT16)], nodes)


def masked_in_half(folder):
    """Of two inputs the lesser is of f16."""
    nodes = [
        helper.make_node("Cast", ["mask"], ["factors"], "cast", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "factors"], ["wide"], "hide"),
    ]
    given = [value("x", [4, 32]), value("mask", [4, 1], TensorProto.FLOAT16)]
    return wide_network(folder, "masked", given, nodes)


@pytest.mark.parametrize("network", [stored_in_half, masked_in_half])
def test_what_is_only_stored_in_f16_is_judged_as_f32(penstock, well, tmp_path, network):
    model = network(tmp_path)
    well("split", model, "-o", "p")
    (output,) = well("verify", "p", "--json").json["outputs"]
    assert (output["verdict"], "f16" in output["allowed"].replace("bf16", "")) == ("right", False)
    assert output["floor"] < 1e-4
    wrong = onnx.load(model)
    (weights,) = [one for one in wrong.graph.initializer if one.name == "v"]
    weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) * np.float32(1.002), "v"))
    onnx.save(wrong, tmp_path / "wrong.onnx")
    well("split", "wrong.onnx", "-o", "wrong")
    outcome = penstock("verify", "wrong", "--model", model, "--json")
    assert (outcome.code, outcome.json["verdict"]) == (1, "wrong")


@pytest.mark.parametrize("op", ["Add", "Cast"])
def test_what_is_computed_or_rounded_in_f16_is_judged_so(well, tmp_path, op):
    """A cast to f16 rounds; the one back does not."""
    narrow, wide = {"to": TensorProto.FLOAT16}, {"to": TensorProto.FLOAT}
    if op == "Add":
        nodes = [helper.make_node("Add", ["x", "x"], ["h"], "add")]
    else:
        nodes = [helper.make_node("Cast", ["x"], ["h"], "narrow", **narrow)]
    nodes.append(helper.make_node("Cast", ["h"], ["wide"], "widen", **wide))
    dtype = TensorProto.FLOAT16 if op == "Add" else TensorProto.FLOAT
    model = wide_network(tmp_path, "computed", [value("x", [4, 32], dtype)], nodes)
    well("split", model, "-o", "p")
    (output,) = well("verify", "p", "--json").json["outputs"]
    assert (output["verdict"], "3 times what f16 gives" in output["allowed"]) == ("right", True)


def split_streams(well, halved, tmp_path, cpu, *options):
    """Calls of up to four frames, for which the first one waits."""
    place = ("--devices", f"cpu:{cpu}", "-o", tmp_path / "p")
    well("split", halved, "--state", "t=s", "--batch", "4:50", *options, *place)
    return tmp_path / "p"


def test_streams_take_turns_so_that_all_models_are_judged(well, halved, tmp_path, cpu):
    package = split_streams(well, halved, tmp_path, cpu, "--streams", "5")
    outcome = well("verify", package, "--json")
    assert outcome.json["frames"] == 20
    assert "no call held so many frames" not in outcome.err
    halved.unlink()  # The reference is the package's own stages.
    assert "no call held so many frames" not in well("verify", package).err


def test_each_stream_gets_all_frames_that_are_given(well, halved, tmp_path, cpu):
    package = split_streams(well, halved, tmp_path, cpu, "--streams", "4")
    frames = np.random.default_rng(0).standard_normal((7, 1, 4)).astype(np.float32)
    np.savez(tmp_path / "frames.npz", **{f"{i}/x": one for i, one in enumerate(frames)})
    assert well("verify", package, "--inputs", tmp_path / "frames.npz", "--json").json["frames"] == 4 * 7


def test_a_wrong_model_of_several_streams_is_found(well, penstock, halved, tmp_path, cpu):
    """Which hands each stream's state to the next one."""
    package = split_streams(well, halved, tmp_path, cpu, "--streams", "4")
    plan = json.loads((package / "plan.json").read_text())
    name = plan["stages"][0]["partitions"][0]["batched"][-1]["model"]
    model = onnx.load(package / name)
    (copy,) = [node for node in model.graph.node if node.output[0] == "t"]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([3, 0, 1, 2]), "turned"))
    turned = helper.make_node("Gather", [copy.input[0], "turned"], ["t"], "turn", axis=0)
    copy.CopyFrom(turned)
    onnx.save(model, package / name)
    plan["files"][name] = hashlib.sha256((package / name).read_bytes()).hexdigest()
    (package / "plan.json").write_text(json.dumps(plan))
    wrong = penstock("verify", package, "--json")
    assert (wrong.code, wrong.json["ok"]) == (1, False)


def test_calls_that_wait_for_no_frame_run_each_model_all_the_same(well, chain, tmp_path, cpus, synthetic_backends):
    """What comes first is taken alone, so that of two or four frames no call has two: only of three."""
    synthetic_backends(a={"seconds": {"Conv": 2e-3, "Relu": 4e-3}})
    stages = ("--cut", "conv1", "--batch", "stage1=4", "--devices", f"cpu:{cpus[0]},cpu:{cpus[-1]}")
    well("split", chain, *stages, "--backend", "synthetic_a", "-o", tmp_path / "p")
    assert "no call held so many frames" in well("verify", tmp_path / "p", "--frames", "1").err
    outcome = well("verify", tmp_path / "p", "--json")
    assert "no call held so many frames" not in outcome.err and outcome.json["frames"] >= 20


@pytest.mark.parametrize(
    ("streams", "replicas", "said"),
    [
        ((), "1", "for 2, 4 ran, so that nothing is said of them; a call of it holds one frame of each stream, and "
         "there is 1: expected 2 or more for that (split --streams), or a smaller batch"),
        (("--streams", "4"), "2", "for 4 ran, so that nothing is said of it; a call of it holds one frame of each "
         "stream, and there are 4 for 2 replicas: expected 5 or more for that (split --streams), or a smaller batch"),
    ],
    ids=["one stream", "two replicas"],
)  # fmt: skip
def test_calls_that_no_streams_fill_are_told(well, halved, tmp_path, cpu, streams, replicas, said):
    package = split_streams(well, halved, tmp_path, cpu, *streams, "--replicas", replicas)
    told = well("verify", package, "--frames", "40").err
    assert said in told
    assert "more frames may help" not in told


def test_a_frame_of_one_number_of_a_loop_that_others_never_end(penstock, well, tmp_path):
    """Random frames beside it are given up: the loop goes on while the largest value is below 50."""
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "one"], ["t"]), helper.make_node("Less", ["most", "fifty"], ["on"])], "body",
        [value("k", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("s", [1, 8])],
        [value("on", [], TensorProto.BOOL), value("t", [1, 8])],
    )  # fmt: skip
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Less", ["most", "fifty"], ["begin"]),
        helper.make_node("Loop", ["", "begin", "x"], ["y"], "loop", body=body),
    ]
    constants = {"one": np.float32(1), "fifty": np.float32(50)}
    file = save(tmp_path, "loop", nodes, [value("x", [1, 8])], [value("y", [1, 8])], constants)
    well("split", file, "-o", "p")
    np.save(tmp_path / "x.npy", np.full((1, 8), 60, np.float32))
    outcome = penstock("verify", "p", "--input", "x=x.npy", "--json", timeout=60)
    assert outcome.code == 3
    assert outcome.json["verdict"] == "inconclusive"
