"""The openvino backend from the command line; skipped where no OpenVINO is found."""

import pytest


@pytest.fixture
def openvino(well):
    shown = well("backends", "--json").json
    found = [backend for backend in shown["backends"] if backend["name"] == "openvino"]
    if not found:
        pytest.skip("built without OpenVINO's headers")
    if not found[0]["available"]:
        pytest.skip(found[0]["unavailable"])
    return found[0]


def test_a_missing_openvino_is_named_with_the_reason(well, openvino, tmp_path):
    missing = tmp_path / "absent.so"
    shown = well("backends", "--json", env={"PENSTOCK_OPENVINO": str(missing)}).json
    (absent,) = [backend for backend in shown["backends"] if backend["name"] == "openvino"]
    assert not absent["available"]
    assert str(missing) in absent["unavailable"]


def test_stages_run_with_openvino_and_agree_with_the_reference(well, openvino, chain, tmp_path):
    target = tmp_path / "p"
    well("split", chain, "--backend", "openvino", "--cut", "relu1", "-o", target)
    assert well("verify", target, "--model", chain, "--json").json["ok"] is True


def test_openvino_is_asked_which_devices_it_runs(well, openvino, chain, cpu, tmp_path):
    for device, warned in [("cuda:0", True), (f"cpu:{cpu}", False)]:
        outcome = well("split", chain, "--backend", "openvino", "--devices", device, "-o", tmp_path / "p")
        assert (f"no backend that is present runs {device}" in outcome.err) == warned


def test_openvino_names_an_option_that_it_does_not_know(penstock, openvino, chain, tmp_path):
    target = tmp_path / "p"
    outcome = penstock("split", chain, "--backend", "openvino", "--backend-option", "openvino:FOO=1", "-o", target)
    assert outcome.code == 1
    assert "openvino:FOO" in outcome.error
    assert not target.exists()


def test_openvino_keeps_to_the_cores_of_a_stage(penstock, well, openvino, chain, cpu, tmp_path):
    """Its own threads would leave them: the pipeline refuses that."""
    target = tmp_path / "p"
    well("split", chain, "--backend", "openvino", "--devices", f"cpu:{cpu}", "-o", target)
    assert well("run", target, "--json").json["ok"] == 100
    hint = "openvino:PERFORMANCE_HINT=THROUGHPUT"
    outcome = penstock("run", target, "--backend-option", hint)
    assert outcome.code != 0
    assert "backend 'openvino'" in outcome.error
