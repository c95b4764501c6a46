"""penstock bench: its report, not its numbers."""

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import threading
import time

import numpy as np
import onnx
import pytest
from conftest import ROOT, save, value
from onnx import TensorProto, helper

QUANTILES = {"p50", "p90", "p99", "max"}
STAGE = {
    "name", "device", "backend", "replicas", "lanes", "frames", "errors", "drops", "calls", "surplus",
    "copies", "allocations", "queue_us",
    "compute_input_us", "compute_infer_us", "compute_output_us", "transfer_us", "drift",
}  # fmt: skip


def names(report):
    return [run["name"] for run in report["runs"]]


def test_a_bare_model_is_compared_with_onnx_runtime(well, chain):
    report = well("bench", chain, "--seconds", "0.6", "--json").json
    assert report["model"] == str(chain)
    assert report["cores"] == len(os.sched_getaffinity(0))
    assert names(report)[:3] == ["penstock", "onnxruntime", "onnxruntime-per-core"]
    hints = {*names(report)[3:], *(missing.split(":")[0] for missing in report["missing"])}
    assert hints == {"openvino-latency", "openvino-throughput", "openvino-per-core"}
    for run in report["runs"]:
        assert run["frames_per_second"] > 0
        assert set(run["latency_ms"]) == QUANTILES
        assert 0 < run["latency_ms"]["p50"] <= run["latency_ms"]["max"]
    (stage,) = report["stages"]
    assert set(stage) == STAGE
    assert stage["frames"] > 0


@pytest.mark.parametrize(("faults", "code"), [([], 0), ([{"do": "wrong", "on": "*", "by": 1}], 1)])
def test_outputs_are_judged_before_they_are_measured(penstock, chain, synthetic_backends, tmp_path, faults, code):
    synthetic_backends(a={"faults": faults})
    split = penstock("split", chain, "--backend", "synthetic_a", "-o", tmp_path / "p", "--policy", "latest")
    assert split.code == 0, split
    outcome = penstock("bench", tmp_path / "p", "--check", "--seconds", "0.5", "--json")
    assert (outcome.code, outcome.json["check"]["verdict"]) == (code, ["right", "wrong"][code]), outcome
    assert names(outcome.json)[0] == "penstock"
    text = penstock("bench", tmp_path / "p", "--check", "--seconds", "0.5")
    assert (text.code, ["verified: ", "not verified: "][code] in text.out) == (code, True), text


def save_lookup(folder, rows):
    """Rows of a table of four, and a folder of frames that name them."""
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["g"], "gather"),
        helper.make_node("Relu", ["g"], ["y"], "relu"),
    ]
    table = np.random.default_rng(1).random((4, 8), np.float32)
    model = save(folder, "lookup", nodes, [value("i", [2], TensorProto.INT64)], [value("y", [2, 8])], {"table": table})
    (folder / "rows").mkdir()
    for number, row in enumerate(rows):
        np.save(folder / "rows" / f"{number}.npy", np.array(row))
    return model


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_frames_that_the_reference_refuses_are_left_out_by_name(penstock, well, tmp_path, check):
    model = save_lookup(tmp_path, [[0, 1], [1, 99], [2, 3]])
    outcome = well("bench", model, "--input", f"i={tmp_path / 'rows'}", "--seconds", "0.5", "--json", *check)
    assert names(outcome.json)[:2] == ["penstock", "onnxruntime"]
    (left_out,) = outcome.json["left_out"]
    assert left_out.startswith("frame 1 ('1.npy' of 'i') is left out, as the reference refuses it: node 'gather'")
    assert left_out in outcome.err
    if check:
        assert (outcome.json["check"]["verdict"], outcome.json["check"]["frames"]) == ("right", 2)
    kept = tmp_path / "rows" / "2.npy"
    assert well("bench", model, "--input", f"i={kept}", "--seconds", "0.5", "--json").json["left_out"] == []
    refused = penstock("bench", model, "--input", f"i={tmp_path / 'rows/1.npy'}", "--seconds", "0.5")
    assert "node 'gather'" in refused.error


def test_one_refused_frame_takes_no_others_with_it(well, tmp_path):
    lookup = save_lookup(tmp_path, [[0, 1], [1, 99], [2, 3]])
    node = {"network": lookup.name, "inputs": {"i": "i"}}
    app = {"penstock_app": 1, "on_error": "stop", "inputs": {"i": None}, "nodes": {"net": node}}
    (tmp_path / "app.yaml").write_text(json.dumps(app | {"outputs": {"y": "net.y"}}))
    well("split", tmp_path / "app.yaml", "-o", tmp_path / "p")
    outcome = well("bench", tmp_path / "p", "--input", f"i={tmp_path / 'rows'}", "--seconds", "0.5", "--json")
    (left_out,) = outcome.json["left_out"]
    assert left_out.startswith("frame 1 ('1.npy' of 'i') is left out")


def test_the_outputs_of_a_bare_model_are_judged_too(well, chain):
    report = well("bench", chain, "--check", "--seconds", "0.5", "--json").json
    assert (report["check"]["verdict"], str(chain) in report["check"]["reference"]) == ("right", True)
    assert well("bench", chain, "--seconds", "0.5", "--json").json["check"] is None


def test_frames_whose_shapes_change_are_measured_by_every_engine(well, tmp_path):
    """A buffer of the first frame's size would be too small for the second."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "open", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "o.onnx")
    np.savez(tmp_path / "x.npz", **{f"{i}/x": np.full((rows, 4), i, np.float32) for i, rows in enumerate((2, 7, 3))})
    report = well("bench", "o.onnx", "--inputs", "x.npz", "--seconds", "0.6", "--json").json
    assert [reason for reason in report["missing"] if "shape" in reason] == []
    assert names(report)[:3] == ["penstock", "onnxruntime", "onnxruntime-per-core"]


def test_a_terminal_shows_what_is_started_before_the_rounds(program, chain):
    ours, theirs = pty.openpty()
    command = [str(program), "bench", str(chain), "--seconds", "0.6"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as running:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # The end of a terminal.
            while part := os.read(ours, 4096):
                shown += part
        running.communicate(timeout=60)
    os.close(ours)
    told = (b"bench  reading '", b"bench  starting the pipeline", b"bench  starting onnxruntime-per-core", b"rounds")
    assert [words for words in told if words not in shown] == []
    assert shown.endswith(b"\r\x1b[K")


@pytest.mark.sweep(of=3)
def test_the_quota_of_the_control_group_is_told(within_quota, well, chain):
    assert well("bench", chain, "--seconds", "0.3", "--json").json["cpu_quota"] is None
    assert within_quota(0.5, "bench", chain, "--seconds", "0.3", "--json").json["cpu_quota"] == 0.5
    assert "with the time of 0.5 CPUs (cgroup quota)" in within_quota(0.5, "bench", chain, "--seconds", "0.3").out


def test_a_batch_shows_how_many_frames_a_call_held(well, chain, tmp_path):
    well("split", chain, "--cut", "1", "--batch", "stage0=4", "-o", tmp_path / "p")
    text = well("bench", tmp_path / "p", "--model", chain, "--seconds", "0.6").out
    (line,) = [line for line in text.splitlines() if "frames a call" in line]
    found = re.fullmatch(r"stage0: (\d(?:[.]\d+)?) of up to 4 frames a call, \d+ rows? computed for no frame", line)
    assert found, line
    assert 1 <= float(found[1]) <= 4


def test_streams_take_turns(well, halved, tmp_path, cpu):
    options = ("--state", "t=s", "--batch", "4:10", "--streams", "4", "--devices", f"cpu:{cpu}", "-o", tmp_path / "p")
    well("split", halved, *options)
    text = well("bench", tmp_path / "p", "--seconds", "1").out
    assert "this pipeline, 4 streams in turn" in text
    (line,) = [line for line in text.splitlines() if "frames a call" in line]
    assert float(re.fullmatch(r"stage0: (\d(?:[.]\d+)?) of up to 4 frames a call, .*", line)[1]) > 1, line
    text = well("bench", tmp_path / "p", "--in-flight", "1", "--seconds", "0.6").out
    assert "this pipeline, one frame at a time" in text


def test_a_model_takes_several_frames_a_call(well, chain):
    (stage,) = well("bench", chain, "--batch", "4", "--seconds", "0.6", "--json").json["stages"]
    assert len(stage["calls"]) == 4
    assert sum(held * calls for held, calls in enumerate(stage["calls"], 1)) == stage["frames"]


def test_a_package_is_compared_with_its_model(well, package, chain):
    report = well("bench", package, "--model", chain, "--seconds", "0.6", "--json").json
    assert names(report)[:3] == ["penstock", "onnxruntime", "onnxruntime-per-core"]
    assert report["cores"] == 1
    assert len(report["stages"]) == 2


@pytest.mark.parametrize("place", ["as it was named", "beside the package"])
def test_a_package_finds_its_model(well, package, chain, tmp_path, place):
    if place == "beside the package":
        (tmp_path / "moved").mkdir()
        package = package.rename(tmp_path / "moved/package")
        chain = chain.rename(tmp_path / "moved" / chain.name)
    report = well("bench", package, "--seconds", "0.6", "--json").json
    assert names(report)[:3] == ["penstock", "onnxruntime", "onnxruntime-per-core"]
    assert str(chain) in report["remark"]


def change(chain):
    model = onnx.load(chain)
    tensor = model.graph.initializer[0]
    tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) * 2, tensor.name))
    onnx.save(model, chain)


def test_a_changed_model_is_not_found_and_refused_when_it_is_given(penstock, well, package, chain):
    change(chain)
    outcome = well("bench", package, "--seconds", "0.3", "--json")
    assert "stages joined" in outcome.json["remark"]
    assert "not at hand" in outcome.err
    assert "--model" in outcome.err
    outcome = penstock("bench", package, "--seconds", "0.3", "--model", chain)
    assert outcome.code == 1
    assert "not the model that package" in outcome.error


def test_a_model_saved_anew_is_the_same(well, package, chain, tmp_path):
    model = onnx.load(chain)
    model.doc_string = "other bytes"
    onnx.save(model, tmp_path / "anew.onnx")
    well("bench", package, "--seconds", "0.3", "--model", tmp_path / "anew.onnx")


def test_import_options_do_not_make_another_model(well, double, chain, tmp_path):
    well("split", double, "--shape", "x=1..8x3", "-o", "bound")
    well("split", chain, "--parameter", "w2", "--as-is", "-o", "parameter")
    for package, model in [("bound", double), ("parameter", chain)]:
        saved = onnx.load(model)
        saved.doc_string = "other bytes"
        onnx.save(saved, model)
        well("bench", package, "--seconds", "0.3", "--model", model)


@pytest.mark.parametrize("options", [[], ["--parameter", "w2"], ["--replicas", "2"]])
def test_without_the_model_the_stages_are_joined(well, chain, options):
    well("split", chain, "--cut", "1", *options, "-o", "p")
    chain.unlink()
    outcome = well("bench", "p", "--seconds", "0.6", "--json")
    assert names(outcome.json)[:3] == ["penstock", "onnxruntime", "onnxruntime-per-core"]
    assert "--model" in outcome.json["remark"]
    assert "not at hand" in outcome.err


def test_an_application_whose_tensors_keep_their_names_is_joined_too(penstock, well, absolute, tmp_path):
    app = tmp_path / "app.yaml"
    app.write_text(
        "penstock_app: 1\nname: one\ninputs: {x: 'f32[1,3,8,8]'}\n"
        f"nodes:\n  abs: {{network: {absolute.name}, inputs: {{x: x}}}}\noutputs: {{y: abs.y}}\n"
    )
    report = well("bench", app, "--seconds", "0.3", "--json").json
    assert names(report)[:2] == ["penstock", "onnxruntime"]
    assert "not at hand" in report["remark"]
    assert "--model" not in report["remark"]  # No file would be that of the whole.
    well("split", app, "-o", "app.penstock")
    other = tmp_path / "other.onnx"
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    save(tmp_path, "other", relu, [value("x", [1, 3, 8, 8])], [value("y", [1, 3, 8, 8])])
    for file in (app, "app.penstock"):
        refused = penstock("bench", file, "--seconds", "0.3", "--model", other)
        assert refused.code == 1
        assert refused.error.endswith("; an application is made from no one model: leave the option out")


def test_the_frames_in_flight_are_as_asked(well, package):
    report = well("bench", package, "--seconds", "0.3", "--in-flight", "1", "--json").json
    assert report["runs"][0]["in_flight"] == 1


def test_the_text_is_a_table(well, chain):
    text = well("bench", chain, "--seconds", "0.6").out
    for word in ["penstock", "onnxruntime-per-core", "frames/s", "p99", "stage0", "compute_infer"]:
        assert word in text


def test_a_frame_that_fails_ends_it(penstock, lookup_of_squares):
    outcome = penstock("bench", lookup_of_squares, "--integer-limit", "1000", "--seconds", "0.3")
    assert outcome.code == 1
    assert outcome.error.startswith("onnxruntime: ")
    assert "gather" in outcome.error


HANGS = """
#include <stdio.h>
#include "penstock/function/penstock_function.h"
static const penstock_port kPort = {"x", PENSTOCK_F32, 0, NULL};
static int32_t run(void* state, penstock_frame* frame) {
  fputs("inside\\n", stderr);
  for (volatile int i = 1; i;) {}
  return PENSTOCK_OK;
}
static const penstock_function kHangs = {"hangs", 0, 1, &kPort, 1, &kPort, NULL, NULL, run};
const penstock_library* penstock_functions(void) {
  static const penstock_library library = {PENSTOCK_FUNCTION_VERSION, 1, &kHangs};
  return &library;
}
"""


@pytest.mark.sweep(of=3)
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_help_has_each_way_of_openvino(well):
    told = " ".join(well("bench", "--help").out.split())
    assert "its latency and with its throughput hint, and with one model of one thread on each core" in told


@pytest.mark.parametrize(
    ("command", "ends"),
    [
        (["bench", "app.yaml"], signal.SIGTERM),
        (["bench", "app.yaml"], signal.SIGINT),
        (["build", "app.yaml", "-o", "p"], signal.SIGINT),
    ],
)
def test_one_signal_ends_it_where_a_call_hangs(program, tmp_path, command, ends):
    (tmp_path / "hangs.c").write_text(HANGS)
    compiler = ["cc", "-shared", "-fPIC", f"-I{ROOT / 'src'}", "hangs.c", "-o", "libhangs.so"]
    subprocess.run(compiler, cwd=tmp_path, check=True)
    (tmp_path / "app.yaml").write_text(
        "penstock_app: 1\ninputs: {x: 'f32[]'}\nnodes: {f: {function: ./libhangs.so, inputs: {x: x}}}\n"
        "outputs: {y: f.x}\n"
    )
    with subprocess.Popen(
        [program, *command], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        try:
            while "inside" not in (line := process.stderr.readline()):
                assert line, "it ended by itself"
            process.send_signal(ends)
            _, told = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 128 + ends
    assert "interrupted while a call still ran, of an engine or a function; ended without it" in told


def test_what_did_not_run_before_an_interrupt_has_no_figures(program, package):
    command = [program, "bench", package, "--seconds", "1000", "--page", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            while "page at" not in process.stderr.readline():
                pass
            time.sleep(1)
            process.send_signal(signal.SIGINT)
            told, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    rows = {line.split()[0]: line.split() for line in reversed(told.splitlines()) if line}
    assert "median of 1 round, taken in turn; latency is push to pop (interrupted)" in told
    assert float(rows["penstock"][1]) > 0
    assert rows["onnxruntime"][1:6] == ["-"] * 5


@pytest.fixture
def endless(tmp_path):
    """Loops as long as x is below 1000, as random numbers are."""
    inner = [
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("a", TensorProto.FLOAT, [1]),
    ]
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Less", ["most", "limit"], ["goes_on"]),
        helper.make_node("Identity", ["a"], ["b"]),
    ]
    out = [
        helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [1]),
    ]
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "yes", "x"], ["y"], body=helper.make_graph(nodes, "body", inner, out))],
        "endless",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        [
            helper.make_tensor("limit", TensorProto.FLOAT, [], [1000.0]),
            helper.make_tensor("yes", TensorProto.BOOL, [], [True]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "endless.onnx")
    return tmp_path / "endless.onnx"


@pytest.mark.parametrize(
    "command",
    [
        ["verify", "p"],
        ["verify", "p", "--inputs", "frames.npz"],
        ["bench", "p", "--check", "--inputs", "frames.npz"],
        ["build", "endless.onnx", "-o", "built"],
        ["build", "endless.onnx", "-o", "built", "--inputs", "frames.npz"],
        ["build", "app.yaml", "-o", "built"],
    ],
)
def test_a_frame_that_does_not_end_is_told(program, well, endless, command):
    well("split", endless, "-o", endless.parent / "p")
    app = {
        "penstock_app": 1,
        "name": "endless",
        "inputs": {"x": "f32[1]"},
        "nodes": {"net": {"network": endless.name, "inputs": {"x": "x"}}},
        "outputs": {"y": "net.y"},
    }
    (endless.parent / "app.yaml").write_text(json.dumps(app))
    ends, never = np.array([2000], np.float32), np.array([1], np.float32)
    np.savez(endless.parent / "frames.npz", **{f"{i}/x": ends + i for i in range(5)}, **{"5/x": never})
    told = []
    with subprocess.Popen(
        [program, *command], cwd=endless.parent, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        watch = threading.Timer(90, process.kill)
        watch.start()
        try:
            for line in process.stderr:
                told.append(line)
                if "has not ended" in line:
                    process.send_signal(signal.SIGINT)
        finally:
            watch.cancel()
            process.kill()
    (sentence,) = [line for line in told if "has not ended" in line]
    given = "--inputs" in command
    never = "this frame never gives" if given else "random frames never give"
    assert f"a frame has not ended for 10 s; a loop in it may wait for a value that {never}" in sentence
    assert "'endless" in sentence and ("(--input)" in sentence or given) and "Ctrl-C" in sentence
    assert process.wait() == 128 + signal.SIGINT


def test_random_frames_that_never_end_in_an_application_are_given_up(penstock, well, endless):
    share = {"ready": "softmax", "options": {"shape": [1]}, "inputs": {"scores": "net.y"}}
    app = {
        "penstock_app": 1,
        "inputs": {"x": "f32[1]"},
        "nodes": {"net": {"network": endless.name, "inputs": {"x": "x"}}, "share": share},
        "outputs": {"y": "net.y", "share": "share.probabilities"},
    }
    (endless.parent / "app.yaml").write_text(json.dumps(app))
    np.savez(endless.parent / "same.npz", **{f"{i}/x": np.array([2000], np.float32) for i in range(2)})
    well("split", "app.yaml", "-o", "p")
    outcome = penstock("verify", "p", "--inputs", "same.npz")  # Others, which nobody gave, are tried beside these.
    assert outcome.code == 3, outcome
    assert "all frames are the same" in outcome.err


def test_a_machine_that_is_not_here_is_not_measured(penstock, package):
    outcome = penstock("bench", package, env={"HWLOC_SYNTHETIC": "core:4 pu:1"})
    assert outcome.code == 1
    assert "the machine is made up" in outcome.error
