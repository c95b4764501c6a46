"""penstock run --output: lines of JSON. (Folders and archives: test_run.py.)"""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import save, value
from onnx import TensorProto, helper


def strict(line: str) -> dict:
    """JSON as its standard has it: Python would also take NaN."""
    return json.loads(line, parse_constant=pytest.fail)


def lines_of(text: str) -> list[dict]:
    return [strict(line) for line in text.splitlines()]


def test_each_frame_is_a_line_of_json(well, double, tmp_path):
    values = np.array([[1, 2.5, 0.1], [np.nan, np.inf, -np.inf]], np.float32)
    np.savez(tmp_path / "x.npz", **{"0/x": values[:1], "1/x": values})
    well("run", double, "--inputs", "x.npz", "--output", "out.jsonl")
    assert lines_of((tmp_path / "out.jsonl").read_text()) == [
        {"frame": 0, "outputs": {"y": (2 * values[:1]).tolist()}},
        {"frame": 1, "outputs": {"y": [(2 * values[0]).tolist(), [None] * 3]}},
    ]


def test_standard_output_has_the_lines_and_nothing_else(well, double, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    expected = [{"frame": i, "files": {"x": "x.npy"}, "outputs": {"y": [[2, 2, 2]]}} for i in range(3)]
    outcome = well("run", double, "--input", "x=x.npy", "--frames", "3", "--output", "-")
    assert lines_of(outcome.out) == expected
    assert "3 frames in" in outcome.err
    outcome = well("run", double, "--input", "x=x.npy", "--frames", "3", "--output", "-", "--json")
    assert lines_of(outcome.out) == expected
    assert json.loads(outcome.err)["frames"] == 3


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (TensorProto.BOOL, np.array([[True, False]])),
        (TensorProto.INT64, np.array([[2**62 + 1, -(2**63)]])),
        (TensorProto.UINT64, np.array([[2**64 - 1, 0]], np.uint64)),
        (TensorProto.INT8, np.array([[-128, 127]], np.int8)),
        (TensorProto.FLOAT16, np.array([[0.1, np.nan]], np.float16)),
        (TensorProto.DOUBLE, np.array([[0.1, 1e300]])),
        (TensorProto.STRING, np.array([["a", 'ä"\n']])),
        (TensorProto.FLOAT, np.zeros((0, 2), np.float32)),
    ],
)
def test_every_kind_of_value_keeps_its_numbers(well, tmp_path, kind, values):
    node = helper.make_node("Identity", ["x"], ["y"], "copy")
    model = save(tmp_path, "copy", [node], [value("x", ["n", 2], kind)], [value("y", ["n", 2], kind)])
    np.save(tmp_path / "x.npy", values)
    (line,) = lines_of(well("run", model, "--input", "x=x.npy", "--output", "-").out)
    expected = values.astype(object)
    if values.dtype.kind == "f":
        expected[~np.isfinite(values)] = None
    assert line["outputs"]["y"] == expected.tolist()


def test_frames_that_do_not_come_out_have_a_line_that_says_why(penstock, well, lookup, tmp_path):
    np.savez(tmp_path / "i.npz", **{"0/i": np.array([0, 1]), "1/i": np.array([0, 9])})
    outcome = penstock("run", lookup, "--inputs", "i.npz", "--output", "-")
    assert outcome.code == 1
    good, bad = lines_of(outcome.out)
    assert good == {"frame": 0, "outputs": {"y": [0, 1]}}
    assert bad["frame"] == 1
    assert set(bad["error"]) == {"code", "message", "reason", "places"}
    assert bad["error"]["places"][:2] == [{"kind": "stage", "name": "stage0"}, {"kind": "frame", "number": 1}]
    assert bad["error"]["message"].startswith("stage 'stage0': frame 1: ")
    assert bad["error"]["message"].endswith(bad["error"]["reason"])

    late = well("run", lookup, "--frames", "500", "--policy", "latest", "--output", "-", "--json")
    report, found = json.loads(late.err), lines_of(late.out)
    assert [line["frame"] for line in found] == list(range(500))
    assert sum("error" in line for line in found) == report["drops"]
    assert {line["error"]["code"] for line in found if "error" in line} <= {"aborted"}
    for line in found:
        if "error" in line:
            assert line["error"]["places"] == [{"kind": "frame", "number": line["frame"]}]


def test_frames_that_an_edge_refuses_have_a_line_too(penstock, package):
    outcome = penstock("run", package, "--frames", "500", "--policy", "error", "--capacity", "1", "--output", "-")
    found = lines_of(outcome.out)
    assert sorted(line["frame"] for line in found) == list(range(500))
    assert {line["error"]["code"] for line in found if "error" in line} <= {"resource_exhausted"}
    assert outcome.code == (1 if any("error" in line for line in found) else 0)


def test_lines_are_as_python_writes_them(well, double, tmp_path):
    penstock = pytest.importorskip("penstock")
    x = np.array([[0.1, np.inf, 3]], np.float32)
    np.save(tmp_path / "x.npy", x)
    ours = strict(well("run", double, "--input", "x=x.npy", "--output", "-").out)
    assert ours.pop("files") == {"x": "x.npy"}  # In Python the frames' source is the caller's.
    with penstock.split(double) as pipeline, penstock.io.JsonLines(tmp_path / "theirs.jsonl") as sink:
        sink.consume(pipeline.stream([x]))
    assert ours == strict((tmp_path / "theirs.jsonl").read_text())


def test_what_cannot_be_written_at_the_end_is_told_before_the_run(penstock, package, tmp_path):
    absent, folder = "No such file or directory; make the folder 'no' first", "it is a folder; give a file's name"
    (tmp_path / "folder.npz").mkdir()
    for option, name, why in [
        ("--output", "no/where.npz", absent),
        ("--output", "folder.npz", folder),
        ("--trace", "no/where.json", absent),
        ("--trace", "folder.npz", folder),
    ]:
        outcome = penstock("run", package, "--frames", "2", option, name)
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.error == f"{option} '{name}': cannot be written: {why}"


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("run package --frames 2", "--trace"),
        ("run package --frames 2", "--record"),
        ("explain package", "--html"),
        ("plan double.onnx", "--svg"),
        ("split double.onnx", "--annotate"),
        ("split double.onnx", "-o"),
    ],
)
def test_what_standard_output_does_not_get_makes_no_file_of_that_name(
    penstock, package, double, tmp_path, command, option
):
    before = sorted(path.name for path in tmp_path.iterdir())
    refused = penstock(*[package if word == "package" else word for word in command.split()], option, "-")
    assert refused.code == 1 and "standard output" in refused.error, refused
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_ending_in_capitals_is_the_same_kind_of_file(penstock, well, double, package, tmp_path):
    for name in ("y.NPZ", "y.JSONL"):
        well("run", package, "--frames", "2", "--output", name)
        assert (tmp_path / name).is_file()
    assert "no .CSV is written" in penstock("run", package, "--frames", "2", "--output", "y.CSV").error
    well("split", double, "-o", "p.ZIP")
    assert (tmp_path / "p.ZIP").is_file()
    np.save(tmp_path / "x.npy", np.ones((1, 3), np.float32))
    (tmp_path / "x.npy").rename(tmp_path / "X.NPY")
    well("run", double, "--input", "x=X.NPY")


@pytest.mark.parametrize("name", ["out.json", "out.csv", "out.npy", "out.mp4"])
def test_a_kind_of_file_that_is_not_written_makes_no_folder_of_that_name(penstock, package, tmp_path, name):
    outcome = penstock("run", package, "--frames", "2", "--output", name)
    assert outcome.code == 1
    assert f"--output '{name}': no {Path(name).suffix} is written: expected a folder" in outcome.error
    assert not (tmp_path / name).exists()
    (tmp_path / name).touch()
    assert "is there, and is no folder" in penstock("run", package, "--frames", "2", "--output", name).error


def test_outputs_do_not_take_the_place_of_what_is_read(penstock, double, tmp_path):
    x = np.ones((2, 3), np.float32)
    np.savez(tmp_path / "own.npz", x=x)
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "y.npy", x)
    (tmp_path / "link.npz").symlink_to("own.npz")
    for given, output in [
        (["--inputs", "own.npz"], "own.npz"),
        (["--inputs", "own.npz"], "link.npz"),
        (["--input", "x=folder/y.npy"], "folder"),
        (["--input", "x=folder"], "folder"),
    ]:
        outcome = penstock("run", double, *given, "--output", output)
        assert outcome.code == 1
        assert "the frames are read from it; choose another name" in outcome.error
    np.testing.assert_array_equal(np.load(tmp_path / "own.npz")["x"], x)
    np.testing.assert_array_equal(np.load(tmp_path / "folder" / "y.npy"), x)


@pytest.mark.parametrize(
    "results",
    [
        ["--output", "p"],
        ["--output", "p/out"],
        ["--output", "./p/out.jsonl"],
        ["--trace", "p/trace.json"],
        ["--record", "p/played.html"],
    ],
)
def test_results_do_not_spoil_a_package(penstock, well, double, results):
    well("split", double, "-o", "p")
    refused = penstock("run", "p", "--frames", "2", *results)
    assert refused.code == 1
    assert f"'{results[1]}': results would lie in the package '" in refused.err
    assert "and spoil it; choose a place outside it" in refused.err
    well("verify", "p")


def test_other_files_do_not_spoil_a_package(penstock, well, double, tmp_path):
    well("split", double, "-o", "p")
    well("split", double, "-o", "q.zip")
    zipped = (tmp_path / "q.zip").read_bytes()
    refused = penstock("run", "q.zip", "--frames", "2", "--trace", "q.zip")
    assert (refused.code, (tmp_path / "q.zip").read_bytes()) == (1, zipped)
    assert "'q.zip': results would take the package's place; choose another name" in refused.err
    for invocation in (["split", double, "--annotate", "p/stages.onnx"], ["serve", "p", "--access-log", "p/log"]):
        refused = penstock(*invocation)
        assert refused.code == 1
        assert f"'{invocation[-1]}': results would lie in the package '" in refused.err
    well("verify", "p")


@pytest.mark.parametrize(
    "command",
    [
        "run double.onnx --frames 1 --trace",
        "run double.onnx --frames 1 --record",
        "bench double.onnx --seconds 0.1 --record",
        "split double.onnx --annotate",
        "plan double.onnx --svg",
        "costs export",
        "serve double.onnx --listen 127.0.0.1:0 --trace",
        "serve double.onnx --listen 127.0.0.1:0 --access-log",
    ],
)
def test_no_file_of_another_kind_is_lost(penstock, double, tmp_path, command):
    (tmp_path / "double.onnx").write_bytes(Path(double).read_bytes())
    for name in ["double.onnx", "notes.jsonl"]:
        if name == "notes.jsonl":
            (tmp_path / name).write_text("what I must not forget")
        before = (tmp_path / name).read_bytes()
        if name == "notes.jsonl" and "annotate" in command:
            continue  # It writes a model, of which nothing tells what it begins with.
        outcome = penstock(*command.split(), name)
        assert outcome.code != 0, command
        assert f"'{name}'" in outcome.err and "choose another name" in outcome.err, outcome.err
        assert (tmp_path / name).read_bytes() == before


def test_earlier_files_are_replaced(well, double, tmp_path):
    for _ in range(2):
        well("run", double, "--frames", "1", "--trace", "t.json", "--record", "r.html", "--output", "o.jsonl")
    (tmp_path / "empty.json").touch()
    well("run", double, "--frames", "1", "--trace", "empty.json")


def test_two_files_of_one_name_are_refused(penstock, double):
    outcome = penstock("run", double, "--frames", "1", "--trace", "same.html", "--record", "same.html")
    assert (outcome.code, "both name 'same.html'" in outcome.err) == (1, True), outcome.err


def test_a_package_with_other_files_in_it_is_not_replaced(penstock, well, double, tmp_path):
    well("split", double, "-o", "p")
    well("split", double, "-o", "p")  # It has nothing else in it.
    (tmp_path / "p/notes").mkdir()
    (tmp_path / "p/notes/README.md").write_text("what I must not forget")
    outcome = penstock("split", double, "-o", "p")
    assert outcome.code == 1
    assert "/p': has 'notes/README.md', which is no file of the package there" in outcome.err, outcome.err
    assert (tmp_path / "p/notes/README.md").read_text() == "what I must not forget"


def test_results_beside_the_inputs_are_written_again(well, double, tmp_path):
    (tmp_path / "both").mkdir()
    np.save(tmp_path / "both/x.npy", np.ones((2, 3), np.float32))
    for _ in range(2):
        well("run", double, "--inputs", "both", "--output", "both")
    assert np.array_equal(np.load(tmp_path / "both/y.npy"), 2 * np.ones((2, 3)))


@pytest.mark.parametrize("frames", [1, 2])
def test_outputs_whose_names_are_alike_have_files_of_their_own(well, tmp_path, frames):
    nodes = [helper.make_node("Neg", ["x"], ["out/a:0"]), helper.make_node("Relu", ["x"], ["out/a_0"])]
    nodes.append(helper.make_node("Add", ["x", "x"], ["out_a_0"]))
    outputs = [value(name, [2]) for name in ("out/a:0", "out/a_0", "out_a_0")]
    model = save(tmp_path, "alike", nodes, [value("x", [2])], outputs)
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    well("run", model, "--input", "x=x.npy", "--frames", str(frames), "-o", "out")
    for frame in range(frames):
        folder = tmp_path / "out" / (f"{frame:06}" if frames > 1 else "")
        assert sorted(file.name for file in folder.iterdir()) == ["out_a_0-2.npy", "out_a_0-3.npy", "out_a_0.npy"]
        assert np.load(folder / "out_a_0.npy").tolist() == [2, 4]
        assert np.load(folder / "out_a_0-2.npy").tolist() == [-1, -2]
        assert np.load(folder / "out_a_0-3.npy").tolist() == [1, 2]
    well("run", model, "--input", "x=x.npy", "--frames", str(frames), "-o", "out")  # Over those of before.


@pytest.mark.parametrize("target", ["out", "out.npz"])
def test_an_output_called_as_an_element_of_another_is_refused(penstock, tmp_path, target):
    nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["s"]), helper.make_node("Neg", ["x"], ["s.0001"])]
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    model = save(tmp_path, "alike", nodes, [value("x", [2])], [sequence, value("s.0001", [2])])
    error = penstock("run", model, "-o", target).error
    assert "the elements of output 's' would be called as output 's.0001' is" in error
    assert not (tmp_path / target).exists()


@pytest.mark.parametrize("blocks", [0, 1, 8, 30])
def test_a_full_disk_leaves_whole_lines(program, well, double, tmp_path, blocks):
    """As where the disk is full: no byte goes beyond so many blocks of 512 bytes."""
    np.savez(tmp_path / "x.npz", **{f"{i}/x": np.full((1, 3), i, np.float32) for i in range(1000)})
    well("split", double, "-o", "double.penstock")
    run = ["run", "double.penstock", "--inputs", "x.npz", "--output"]
    well(*run, "all.jsonl")
    everything = (tmp_path / "all.jsonl").read_text()
    assert len(everything) > 2 * 512 * 30
    command = ["sh", "-c", f'trap "" XFSZ; ulimit -f {blocks}; exec "$@"', "sh", program, *run, "out.jsonl"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    whole = everything[: everything.rfind("\n", 0, 512 * blocks) + 1]
    assert (tmp_path / "out.jsonl").read_text() == whole
    told = f"'out.jsonl': cannot be written: File too large; {whole.count(chr(10))} frames are in it"
    assert (done.returncode, done.stderr) == (1, f"penstock: error: file {told}\n")


def test_what_cannot_be_written_is_an_error(program, penstock, package, tmp_path):
    for target in ["no/where.jsonl", "full.jsonl"]:
        (tmp_path / "full.jsonl").unlink(missing_ok=True)
        (tmp_path / "full.jsonl").symlink_to("/dev/full")
        outcome = penstock("run", package, "--frames", "2", "--output", target)
        assert outcome.code == 1
        assert f"'{target}': cannot be written: " in outcome.error
    assert outcome.error.endswith("No space left on device; 0 frames are in it")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [program, "run", package, "--frames", "2", "--output", "-"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "penstock: error: standard output: cannot be written: No space left on device\n"
