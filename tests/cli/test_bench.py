"""penstock bench: its report, not its numbers."""

import os

QUANTILES = {"p50", "p90", "p99", "max"}
STAGE = {
    "name", "device", "backend", "replicas", "frames", "errors", "drops", "copies", "allocations", "queue_us",
    "compute_input_us", "compute_infer_us", "compute_output_us", "transfer_us",
}  # fmt: skip


def names(report):
    return [run["name"] for run in report["runs"]]


def test_a_bare_model_is_compared_with_onnx_runtime(well, chain):
    report = well("bench", chain, "--seconds", "0.6", "--json").json
    assert report["model"] == str(chain)
    assert report["cores"] == len(os.sched_getaffinity(0))
    assert names(report) == ["penstock", "onnxruntime", "onnxruntime-per-core"]
    for run in report["runs"]:
        assert run["frames_per_second"] > 0
        assert set(run["latency_ms"]) == QUANTILES
        assert 0 < run["latency_ms"]["p50"] <= run["latency_ms"]["max"]
    (stage,) = report["stages"]
    assert set(stage) == STAGE
    assert stage["frames"] > 0


def test_a_package_is_compared_with_its_model(well, package, chain):
    report = well("bench", package, "--model", chain, "--seconds", "0.6", "--json").json
    assert names(report) == ["penstock", "onnxruntime", "onnxruntime-per-core"]
    assert report["cores"] == 1
    assert len(report["stages"]) == 2


def test_without_the_model_a_package_of_several_stages_says_so(well, package):
    report = well("bench", package, "--seconds", "0.3", "--json").json
    assert names(report) == ["penstock"]
    assert "--model" in report["remark"]


def test_the_frames_in_flight_are_as_asked(well, package):
    report = well("bench", package, "--seconds", "0.3", "--in-flight", "1", "--json").json
    assert report["runs"][0]["in_flight"] == 1


def test_the_text_is_a_table(well, chain):
    text = well("bench", chain, "--seconds", "0.6").out
    for word in ["penstock", "onnxruntime-per-core", "frames/s", "p99", "stage0", "compute_infer"]:
        assert word in text


def test_a_frame_that_fails_ends_it(penstock, lookup):
    outcome = penstock("bench", lookup, "--integer-limit", "1000", "--seconds", "0.3")
    assert outcome.code == 1
    assert outcome.error.startswith("onnxruntime: ")
    assert "gather" in outcome.error
