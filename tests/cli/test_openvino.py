"""The openvino backend from the command line; skipped where no OpenVINO is found."""

import numpy as np
import onnx
import pytest
from conftest import save, value
from onnx import TensorProto, helper


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


@pytest.mark.parametrize("op", ["Gather", "Expand"])
def test_what_ends_openvino_on_empty_tensors_is_left_to_other_engines(well, penstock, openvino, op, tmp_path):
    """The CPU plugin divides by the size of a dimension there, by which the process ends."""
    reads = {"Gather": np.zeros(0, np.int64), "Expand": np.array([2, 0])}[op]
    nodes = [helper.make_node(op, ["x", "k"], ["y"], "empties")]
    file = save(tmp_path, "empty", nodes, [value("x", [2, 0])], [value("y", None)], {"k": reads})
    well("split", file, "--backend", "openvino", "-o", tmp_path / "p")
    refused = penstock("run", tmp_path / "p", "--frames", "2")
    assert refused.code == 1
    assert f"node 'empties' ({op}): OpenVINO does not run it on tensors without elements, found 'x'" in refused.error
    assert well("run", file, "--frames", "2", "--json").json["ok"] == 2
    measured = well("bench", file, "--seconds", "0.5")
    assert "not measured: openvino-latency" in measured.out + measured.err


@pytest.mark.parametrize("external", [False, True])
def test_openvino_refuses_empty_tensors_in_branches_and_beside_external_data(
    penstock, well, openvino, external, tmp_path
):
    """It looks at shapes alone: the numbers of `large` are never read."""
    inner = helper.make_graph([helper.make_node("Gather", ["x", "k"], ["i"])], "t", [], [value("i", None)])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["o"])], "e", [], [value("o", None)])
    nodes = [
        helper.make_node("ReduceMax", ["large"], ["most"], keepdims=0),
        helper.make_node("Cast", ["c"], ["b"], to=TensorProto.BOOL),
        helper.make_node("If", ["b"], ["y"], "choice", then_branch=inner, else_branch=other),
    ]
    reads = {"k": np.zeros(0, np.int64), "large": np.zeros(30_000, np.float32)}
    inputs = [value("x", [2, 0]), value("c", [1])]
    file = save(tmp_path, "empty", nodes, inputs, [value("y", None), value("most", [])], reads)
    if external:
        onnx.save(onnx.load(file), file, save_as_external_data=True, location="numbers.bin", size_threshold=1024)
    well("split", file, "--as-is", "--backend", "openvino", "-o", tmp_path / "p")
    refused = penstock("run", tmp_path / "p", "--frames", "2")
    assert refused.code == 1
    assert "the Gather that makes 'i': OpenVINO does not run it on tensors without elements" in refused.error


@pytest.mark.parametrize("empty", ["then", "else"])
def test_openvino_is_given_no_branch_whose_result_is_a_constant_without_elements(
    penstock, well, openvino, empty, tmp_path
):
    """As exporters write a detector that keeps nothing: OpenVINO makes one element of it."""
    nothing = helper.make_node("Constant", [], ["n"], "none", value=helper.make_tensor("v", TensorProto.INT64, [0], []))
    some = helper.make_node("Identity", ["x"], ["s"])
    branches = {
        "then": helper.make_graph([nothing], "t", [], [value("n", [0], TensorProto.INT64)]),
        "else": helper.make_graph([some], "e", [], [value("s", [3], TensorProto.INT64)]),
    }
    if empty == "else":
        branches = {"then": branches["else"], "else": branches["then"]}
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches["then"], else_branch=branches["else"])
    inputs = [value("c", [], TensorProto.BOOL), value("x", [3], TensorProto.INT64)]
    file = save(tmp_path, "branch", [node], inputs, [value("y", ["n"], TensorProto.INT64)])
    np.savez(tmp_path / "frame.npz", c=np.array(empty == "then"), x=np.arange(3))
    well("run", file, "--inputs", "frame.npz", "-o", "out.npz")
    with np.load(tmp_path / "out.npz") as made:
        assert made["y"].shape == (0,)
    well("split", file, "--backend", "openvino", "-o", "p")
    refused = penstock("run", "p", "--inputs", "frame.npz", "-o", "out.npz").error
    assert (
        "node 'none' (Constant): OpenVINO makes one element of a constant without elements, and 'n', a result of "
        "its branch or loop, is one" in refused
    )


def loop_of(steps):
    """So many negations of x."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["s"], ["t"])], "body",
        [value("k", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("s", [1, 4])],
        [value("on", [], TensorProto.BOOL), value("t", [1, 4])],
    )  # fmt: skip
    return helper.make_node("Loop", [steps, "", "x"], ["y"], "loop", body=body)


def test_openvino_is_given_no_loop_that_it_may_never_end(penstock, well, openvino, tmp_path):
    """Of fewer than 0 steps, which ONNX has run not at all; ONNX Runtime does."""
    nodes = [
        helper.make_node("ReduceMin", ["x"], ["least"], keepdims=0),
        helper.make_node("Cast", ["least"], ["steps"], to=TensorProto.INT64),
        loop_of("steps"),
    ]
    file = save(tmp_path, "loop", nodes, [value("x", [1, 4])], [value("y", [1, 4])])
    frame = np.full((1, 4), -2, np.float32)
    np.savez(tmp_path / "frame.npz", x=frame)
    well("run", file, "--inputs", "frame.npz", "-o", "out.npz")
    with np.load(tmp_path / "out.npz") as made:
        np.testing.assert_array_equal(made["y"], frame)
    well("split", file, "--backend", "openvino", "-o", "p")
    refused = penstock("run", "p", "--inputs", "frame.npz", "-o", "out.npz").error
    assert "node 'loop' (Loop): OpenVINO never ends a loop of fewer than 0 steps, and 'steps', " in refused


@pytest.mark.parametrize("as_initialiser", [True, False])
def test_openvino_is_given_no_loop_of_fewer_than_0_steps(penstock, well, openvino, tmp_path, as_initialiser):
    nodes = [loop_of("m")]
    if not as_initialiser:
        nodes.insert(0, helper.make_node("Constant", [], ["m"], value_int=-1))
    constants = {"m": np.array(-1)} if as_initialiser else {}
    file = save(tmp_path, "loop", nodes, [value("x", [1, 4])], [value("y", [1, 4])], constants)
    well("split", file, "--as-is", "--backend", "openvino", "-o", "p")
    refused = penstock("run", "p", "--frames", 1, "-o", "out.npz").error
    assert "and 'm', their number, is no constant of 0 or more" in refused


@pytest.mark.parametrize("steps", [None, np.iinfo(np.int64).max])
@pytest.mark.parametrize("within", ["graph", "branch"])
def test_openvino_is_given_no_loop_that_a_condition_alone_ends(penstock, well, openvino, tmp_path, steps, within):
    """While the sum is not 0, which it is for the user's frames: a run of other frames could not be ended."""
    nodes = [
        helper.make_node("Sub", ["s", "one"], ["t"]),
        helper.make_node("ReduceSum", ["t"], ["sum"], keepdims=0),
        helper.make_node("Cast", ["sum"], ["on"], to=TensorProto.BOOL),
    ]
    carried = [value("on", [], TensorProto.BOOL), value("t", [4], TensorProto.INT64)]
    given = [value("k", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("s", [4], TensorProto.INT64)]
    body = helper.make_graph(nodes, "body", given, carried)
    loop = helper.make_node("Loop", ["" if steps is None else "m", "", "x"], ["l"], "loop", body=body)
    same = helper.make_node("Identity", ["x"], ["e"])
    branches = {
        "then_branch": helper.make_graph([loop], "t", [], [value("l", [4], TensorProto.INT64)]),
        "else_branch": helper.make_graph([same], "e", [], [value("e", [4], TensorProto.INT64)]),
    }
    node = loop if within == "graph" else helper.make_node("If", ["c"], ["l"], **branches)
    x, y = value("x", [4], TensorProto.INT64), value("y", [4], TensorProto.INT64)
    inputs = [x, value("c", [], TensorProto.BOOL)] if within == "branch" else [x]
    constants = {"one": np.int64(1), "m": np.int64(steps or 0)}
    file = save(tmp_path, "loop", [node, helper.make_node("Neg", ["l"], ["y"])], inputs, [y], constants)
    frame = {"x": np.full(4, 5)} | ({"c": np.array(True)} if within == "branch" else {})
    np.savez(tmp_path / "frame.npz", **frame)
    well("split", file, "--backend", "openvino", "-o", "p")
    refused = penstock("run", "p", "--inputs", "frame.npz", "-o", "out.npz").error
    assert "node 'loop' (Loop): OpenVINO cannot be told to end a run, and " in refused
    well("build", file, "--inputs", "frame.npz", "--budget", "2s", "-o", "built", timeout=60)
    well("run", "built", "--inputs", "frame.npz", "-o", "out.npz")
    with np.load(tmp_path / "out.npz") as made:
        np.testing.assert_array_equal(made["y"], np.zeros(4))
