"""Networks with operators of the user's own."""

import shutil

import numpy as np
import pytest
from conftest import settled


def test_a_package_carries_its_operators(well, twice, library, tmp_path):
    package = tmp_path / "p"
    well("split", twice, "--cut", "twice", "--custom-ops", library, "-o", package)
    np.save(tmp_path / "x.npy", np.array([[1, -2, 3], [0, 5, -6]], np.float32))
    well("run", package, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out")
    assert np.load(tmp_path / "out/y.npy").tolist() == [[-2, -4, -6], [0, -10, -12]]
    assert well("verify", package, "--model", twice, "--json").json["ok"] is True


@pytest.mark.sweep(of=3)
def test_a_network_with_its_operators_is_built(well, twice, library, tmp_path, own_costs):
    options = ("--custom-ops", library, "--budget", "6s", "--json")
    report = well("build", twice, "-o", tmp_path / "p", *options).json
    assert "onnxruntime" in report["chosen"]
    assert well("verify", tmp_path / "p", "--model", twice, "--json").json["ok"] is True

    def again() -> dict:
        return well("build", twice, "-o", tmp_path / "q", *options).json

    assert settled(again(), again)["measured_parts"] == 0


def test_no_native_code_refuses_its_library(penstock, well, twice, library):
    well("split", twice, "--cut", "twice", "--custom-ops", library, "-o", "p")
    for command in ["run", "verify", "show"]:
        refused = penstock(command, "p", "--no-native-code")
        assert f"custom-operator library 'custom_ops/{library.name}': native code" in refused.error
    for command in [["run"], ["bench"], ["show"], ["split", "-o", "q"]]:
        refused = penstock(*command, twice, "--custom-ops", library, "--no-native-code")
        assert refused.code == 2
        assert "'--custom-ops' and '--no-native-code' do not go together: give one of them" in refused.error


@pytest.mark.parametrize("wrong", ["absent.so", "text.so", "other.so"])
def test_a_library_that_does_not_load_is_refused_before_the_import(penstock, program, twice, tmp_path, wrong):
    (tmp_path / "text.so").write_text("no library")
    plugin = program.resolve().parents[1] / "lib/penstock/plugins/libpenstock_backend_onnxruntime.so"
    shutil.copy(plugin, tmp_path / "other.so")
    for command in [["split", twice, "--cut", "1", "-o", "p"], ["run", twice]]:
        refused = penstock(*command, "--custom-ops", wrong)
        assert refused.code == 1
        assert refused.error.startswith(f"custom-operator library '{wrong}': ")
        assert ("no such file" if wrong == "absent.so" else "exports RegisterCustomOps") in refused.error
    assert not (tmp_path / "p").exists()


def test_a_library_is_found_by_its_bare_name(well, twice, library, tmp_path):
    shutil.copy(library, tmp_path / "ops.so")
    well("split", twice, "--cut", "twice", "--custom-ops", "ops.so", "-o", "p")


def test_show_takes_the_library_and_so_knows_the_types(penstock, well, twice, library):
    without, known = (well("show", twice, *more, "--json").json for more in ([], ["--custom-ops", library]))
    assert [nodes["nodes"][1]["shapes"] for nodes in (without, known)] == [["?"], ["f32"]]
    assert "--custom-ops" in penstock("split", twice, "--cut", "twice", "-o", "p").error


def test_without_the_library_the_operator_is_named(penstock, twice, tmp_path):
    outcome = penstock("run", twice, "--frames", "1")
    assert outcome.code == 1
    assert "Twice" in outcome.error
