"""Networks that nothing was tuned for split at any cut, build, and verify: on random frames and on the user's."""

import itertools
import random

import numpy as np
import onnx
import pytest
from onnx import helper
from unseen import F32, I64, NETWORKS, op, save, value, weights_of

RIGHT, INCONCLUSIVE = 0, 3


@pytest.fixture(autouse=True)
def costs(own_costs):
    """A database of costs of the test's own."""
    return own_costs


@pytest.fixture(params=NETWORKS)
def unseen(request, tmp_path):
    return NETWORKS[request.param](tmp_path)


@pytest.fixture
def check(penstock, unseen, tmp_path):
    """Verifies a package on random frames, and on the network's own."""
    frames = {f"{i:02}/{name}": array for i, frame in enumerate(unseen.frames) for name, array in frame.items()}
    np.savez(tmp_path / "own.npz", **frames)

    def run(package, what=None):
        on_random = penstock("verify", package, "--frames", "6", "--json")
        own = penstock("verify", package, "--inputs", "own.npz", "--json")
        allowed = {RIGHT, INCONCLUSIVE} if unseen.random_is_saturated else {RIGHT}
        assert {on_random.code, own.code} <= allowed, (what, on_random, own)

    return run


def some_cuts(count: int):
    """Each place, or six of many; and two at once in some places."""
    places, chosen = range(count - 1), random.Random(0)
    one = places if len(places) <= 8 else sorted(chosen.sample(places, 6))
    two = list(itertools.combinations(places, 2))
    return [[place] for place in one] + [list(pair) for pair in chosen.sample(two, min(2, len(two)))]


@pytest.mark.sweep(of=12)
def test_it_splits_in_two_and_three(well, check, unseen, tmp_path):
    options = [] if "--state" in unseen.options else unseen.options
    nodes = well("show", unseen.file, *options, "--json").json["nodes"]
    for number, cuts in enumerate(some_cuts(len(nodes))):
        package = tmp_path / f"{number}.penstock"
        places = [word for cut in cuts for word in ("--cut", cut)]
        well("split", unseen.file, *places, *unseen.options, "-o", package)
        assert len(well("show", package, "--json").json["stages"]) == len(cuts) + 1
        check(package, cuts)


@pytest.mark.sweep(of=24)
@pytest.mark.parametrize("own", [False, True])
def test_it_builds(well, check, unseen, own, tmp_path):
    frames = ["--inputs", "own.npz"] if own else []
    well("build", unseen.file, "-o", "built.penstock", "--budget", "1s", *frames, *unseen.options)
    check(tmp_path / "built.penstock")


@pytest.mark.sweep(of=3)
def test_engines_are_timed_on_indices_that_fit(well, tmp_path):
    """Of one node in each frame, which 0 names and 1 does not."""
    nodes = [
        op("MatMul", "x w", "h"),
        op("Gather", "edges first", "from"),
        op("Gather", "h from", "told", axis=0),
        op("ReduceSum", "told rows", "y"),
    ]
    weights = {"w": weights_of(0, 8, 8), "first": np.int64(0), "rows": np.array([0])}
    inputs = [value("x", ["nodes", 8]), value("edges", [2, "count"], I64)]
    file = save(tmp_path, nodes, inputs, [value("y", [1, 8], F32)], weights)
    report = well("build", file, "-o", "built.penstock", "--budget", "1s", "--json").json
    assert [way["failure"] for way in report["simple"] + report["ways"] if way["failure"]] == []
    assert not [note for note in report["notes"] if "onnxruntime" in note]


def test_a_map_as_an_input_is_refused_with_what_to_do(penstock, tmp_path):
    reads = helper.make_node("DictVectorizer", ["words"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    words = onnx.ValueInfoProto(name="words")
    words.type.map_type.key_type = onnx.TensorProto.STRING
    words.type.map_type.value_type.tensor_type.elem_type = F32
    graph = helper.make_graph([reads], "of_a_map", [words], [value("y", [1, 2])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "map.onnx")
    for command in (["build", "map.onnx", "-o", "p"], ["bench", "map.onnx"], ["run", "map.onnx"]):
        said = penstock(*command).error
        assert "input 'words'" in said
        assert "begin the network behind the node that reads it" in said


@pytest.mark.sweep(of=3)
def test_a_build_takes_texts_that_are_bytes(well, tmp_path):
    """Of a picture that a node decodes, say. They have no .npy form, in which parts keep what they are timed on."""
    nodes = [
        op("LabelEncoder", "text", "number", domain="ai.onnx.ml", classes_strings=["oslo", "rome"]),
        op("Cast", "number", "known", to=F32),
        op("MatMul", "known w", "y"),
    ]
    inputs = [value("text", [1, 1], onnx.TensorProto.STRING)]
    weights = {"w": weights_of(0, 1, 2)}
    file = save(tmp_path, nodes, inputs, [value("y", [1, 2])], weights, domains=("ai.onnx.ml",))
    text = onnx.TensorProto(data_type=onnx.TensorProto.STRING, dims=[1, 1], string_data=[b"\xff\xd8\xff"])
    (tmp_path / "text.pb").write_bytes(text.SerializeToString())
    well("build", file, "-o", "built.penstock", "--budget", "1s", "--input", "text=text.pb")
