"""Traces, read as Perfetto reads them."""

import perfetto
import pytest


@pytest.fixture
def trace_of(well, tmp_path):
    def trace_of(source, *options) -> perfetto.Trace:
        well("run", source, "--trace", "trace.json", *options)
        trace = perfetto.read(tmp_path / "trace.json")
        perfetto.check(trace)
        return trace

    return trace_of


@pytest.fixture
def package(well, chain, tmp_path):
    well("split", chain, "--cut", "relu1", "-o", "line.penstock")
    return tmp_path / "line.penstock"


def test_a_flow_goes_with_each_frame_from_push_to_pop(trace_of, package):
    trace = trace_of(package, "--frames", "50")
    assert len(trace.flows) == 50
    for steps in trace.flows.values():
        frame = steps[0][2].arguments["frame"]
        names = [one.name for _, _, one in steps]
        assert names == [f"push {frame}", f"frame {frame}", f"frame {frame}", f"pop {frame}"]
        assert [one.category for _, _, one in steps][1:3] == ["stage0", "stage1"]


def test_counters_tell_depth_and_memory(trace_of, package):
    trace = trace_of(package, "--frames", "50", "--capacity", "4")
    depths = {name: steps for (_, name), steps in trace.counters.items() if name.startswith("depth of ")}
    assert set(depths) == {"depth of input -> stage0", "depth of stage0 -> stage1", "depth of stage1 -> output"}
    assert all(steps[-1][1] == 0 for steps in depths.values())
    assert max(value for _, value in depths["depth of stage0 -> stage1"]) <= 4
    (memory,) = [steps for (_, name), steps in trace.counters.items() if name.startswith("memory")]
    assert memory[-1][1] == 0 and max(value for _, value in memory) >= 3 * 4 * 4 * 4


def test_frames_that_share_a_call_lie_within_one_another(trace_of, well, chain, tmp_path):
    well("split", chain, "--batch", "4", "-o", "batched.penstock")
    trace = trace_of(tmp_path / "batched.penstock", "--frames", "64")
    assert len(trace.flows) == 64


def test_replicas_have_lanes_of_their_own(trace_of, chain, cpus):
    trace = trace_of(chain, "--frames", "40")
    assert len(set(trace.threads.values()) - {"push", "pop"}) >= len(cpus)
