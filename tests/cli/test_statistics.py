"""What `run` says of memory, allocations and time."""

import json

import numpy as np
import pytest
from conftest import save, value
from onnx import TensorProto, helper


@pytest.fixture
def nonzero(tmp_path):
    """y = the indices of x's elements that are not 0: their number depends on the data."""
    node = helper.make_node("NonZero", ["x"], ["y"], "nonzero")
    return save(tmp_path, "nonzero", [node], [value("x", [8])], [value("y", [1, "n"], TensorProto.INT64)])


def test_what_the_engine_allocates_is_counted(well, nonzero, package):
    report = well("run", nonzero, "--frames", "50", "--json").json
    assert sum(stage["allocations"] for stage in report["stages"]) == 50
    for stage in well("run", package, "--frames", "50", "--json").json["stages"]:
        assert (stage["copies"], stage["allocations"]) == (0, 0)


def test_memory_without_bound_is_said(well, nonzero):
    report = well("run", nonzero, "--frames", "1", "--json").json
    assert report["memory_bytes"] is None
    assert [edge["bytes"] is None for edge in report["edges"]] == [False, True]
    assert "memory of the edges: without bound" in well("run", nonzero, "--frames", "1").out
    assert "edges hold without bound" in well("run", nonzero, "--frames", "1", "-v").err


def test_a_capacity_beyond_the_memory_is_refused(penstock, package):
    file = package / "plan.json"
    plan = json.loads(file.read_text())
    plan["edges"][1]["capacity"] = 2_000_000_000
    file.write_text(json.dumps(plan))
    outcome = penstock("run", package)
    assert outcome.code == 1
    for words in ["'stage0 -> stage1' with 2000000000 slots and ", "are available", "smaller capacity"]:
        assert words in outcome.error


def test_a_plan_that_contradicts_its_models_is_refused(penstock, package):
    file = package / "plan.json"
    plan = json.loads(file.read_text())
    tensor = next(tensor for tensor in plan["tensors"] if tensor["name"] == "r1")
    tensor["shape"] = [1, 4, 4, 5]
    file.write_text(json.dumps(plan))
    outcome = penstock("run", package)
    assert outcome.code == 1
    for words in ["stage 'stage0': tensor 'r1'", "the plan says f32[1,4,4,5]", "says f32[1,4,4,4]"]:
        assert words in outcome.error


def test_a_phase_that_was_never_measured_has_no_times(penstock, well, lookup, package, tmp_path):
    np.savez(tmp_path / "i.npz", i=np.array([0, 9]))  # Fails in every frame.
    stage = penstock("run", lookup, "--inputs", "i.npz", "--json").json["stages"][0]
    assert stage["compute_infer_us"] == {"p50": None, "p90": None, "p99": None, "max": None}
    stage = well("run", package, "--frames", "1", "--json").json["stages"][0]
    assert stage["compute_infer_us"]["max"] > 0
