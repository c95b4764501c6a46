"""penstock verify, and packages that somebody changed."""

import json

import numpy as np
import pytest


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
    assert (report["ok"], report["hint"]) == (True, "")
    assert report["reference"].endswith(", optimised")


def test_parameters_and_zips_are_verified_too(well, chain, tmp_path):
    target = tmp_path / "p.penstock.zip"
    well("split", chain, "--cut", "1", "--parameter", "w2", "-o", target)
    assert well("verify", target, "--model", chain, "--json").json["ok"] is True


def test_another_models_outputs_are_not_equal(penstock, package, chain, tmp_path):
    import onnx

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


def test_inputs_that_the_model_itself_refuses_are_said_to_be_at_fault(penstock, well, lookup, tmp_path):
    well("split", lookup, "--cut", "gather", "-o", "p")
    outcome = penstock("verify", "p", "--integer-limit", "1000", "--frames", "1")
    assert outcome.code == 1
    assert "the reference fails too; the inputs were random" in outcome.error
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


def test_a_moved_package_verifies(well, package, tmp_path):
    moved = tmp_path / "elsewhere"
    package.rename(moved)
    assert well("verify", moved, "--json").json["ok"] is True
