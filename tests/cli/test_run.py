"""penstock run."""

import contextlib
import fcntl
import hashlib
import json
import os
import pty
import re
import signal
import subprocess
import termios
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import save, value
from onnx import TensorProto, helper, numpy_helper


def test_random_frames_run_through_a_package(well, package):
    report = well("run", package, "--frames", "50", "--json").json
    assert (report["frames"], report["ok"], report["errors"], report["drops"]) == (50, 50, 0, 0)
    assert report["frames_per_second"] > 0
    assert [stage["frames"] for stage in report["stages"]] == [50, 50]
    for stage in report["stages"]:
        for phase in ["queue", "compute_input", "compute_infer", "compute_output", "transfer"]:
            assert set(stage[f"{phase}_us"]) == {"p50", "p90", "p99", "max"}


def test_a_bare_model_runs_as_one_replica_for_each_cpu(well, chain):
    report = well("run", chain, "--frames", "10", "--json").json
    assert [stage["replicas"] for stage in report["stages"]] == [len(os.sched_getaffinity(0))]


def test_a_bar_is_shown_on_a_terminal_only(program, well, package):
    assert "\r" not in well("run", package, "--frames", "50").err
    ours, terminal = pty.openpty()
    command = [program, "run", package, "--frames", "50"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=terminal) as process:
        os.close(terminal)
        told = b""
        with contextlib.suppress(OSError):  # The terminal's end.
            while part := os.read(ours, 4096):
                told += part
    os.close(ours)
    assert process.returncode == 0
    told = told.decode()
    assert "/50 frames" in told
    assert told.endswith("\r\x1b[K")  # It is wiped.


def test_the_text_has_the_table(well, package):
    text = well("run", package, "--frames", "5").out
    assert re.search(r": 5 frames in [\d.]+ (us|ms|s), [\d.]+ frames a second\n", text), text
    for word in ["stage0", "stage1", "compute_infer", "stage0 -> stage1", "memory"]:
        assert word in text


def test_a_file_in_gives_the_right_file_out(well, double, tmp_path):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    well("run", double, "--input", "x=x.npy", "--output", "out")
    assert np.array_equal(np.load(tmp_path / "out/y.npy"), 2 * x)


def test_a_split_that_leaves_its_first_piece_out_runs(well, tmp_path):
    nodes = [
        helper.make_node("Split", ["x"], ["", "b", "c"], axis=1),
        helper.make_node("Add", ["b", "c"], ["y"]),
    ]
    save(tmp_path, "pieces", nodes, [value("x", [2, 6])], [value("y", [2, 2])])
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    np.save(tmp_path / "x.npy", x)
    well("run", "pieces.onnx", "--input", "x=x.npy", "--output", "out")
    assert np.array_equal(np.load(tmp_path / "out/y.npy"), x[:, 2:4] + x[:, 4:])


def test_every_kind_of_file_is_read(well, double, tmp_path):
    x = np.arange(3, dtype=np.float32).reshape(1, 3)
    np.save(tmp_path / "x.npy", np.asfortranarray(x))
    np.savez_compressed(tmp_path / "x.npz", x=x)
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    folder = tmp_path / "test_data_set_0"
    folder.mkdir()
    (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x).SerializeToString())
    for source in [("--input", "x=x.npy"), ("--input", "x=x.pb"), ("--inputs", "x.npz"), ("--inputs", folder)]:
        well("run", double, *source, "--output", "out.npz")
        assert np.array_equal(np.load(tmp_path / "out.npz")["y"], 2 * x), source


def test_several_values_are_several_frames_in_order(well, double, tmp_path):
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", np.full((1, 3), i, np.float32))
        (tmp_path / f"in/{i}").mkdir(parents=True)
        np.save(tmp_path / f"in/{i}/x.npy", np.full((1, 3), i, np.float32))
    inputs = [part for i in range(3) for part in ("--input", f"x={i}.npy")]
    for source in [inputs, ["--inputs", "in"]]:
        well("run", double, *source, "--output", "out")
        for i in range(3):
            assert np.all(np.load(tmp_path / f"out/{i:06}/y.npy") == 2 * i)


def test_frames_beyond_the_files_repeat_them(well, double, tmp_path):
    np.savez(tmp_path / "x.npz", **{"0/x": np.zeros((1, 3), np.float32), "1/x": np.ones((1, 3), np.float32)})
    well("run", double, "--inputs", "x.npz", "--frames", "4", "--output", "out.npz")
    written = np.load(tmp_path / "out.npz")
    assert [float(written[f"{i:06}/y"][0, 0]) for i in range(4)] == [0, 2, 0, 2]


def test_a_picture_is_resized_and_scaled(well, absolute, tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name in ["red.png", "red.jpg", "red.bmp"]:
        image.new("RGB", (32, 16), (255, 0, 0)).save(tmp_path / name)
        well("run", absolute, "--input", f"x={name}", "--output", "out")
        y = np.load(tmp_path / "out/y.npy")
        assert np.allclose(y[0, 0], 1, atol=0.02)
        assert np.allclose(y[0, 1:], 0, atol=0.02)


def test_the_seed_settles_the_random_inputs(well, package, tmp_path):
    def outputs(seed):
        well("run", package, "--frames", "1", "--seed", seed, "--output", "out")
        return np.load(tmp_path / "out/y.npy")

    assert np.array_equal(outputs(1), outputs(1))
    assert not np.array_equal(outputs(1), outputs(2))


def test_a_failing_frame_is_reported_and_the_others_run(penstock, lookup, tmp_path):
    np.savez(tmp_path / "i.npz", **{"0/i": np.array([0, 1]), "1/i": np.array([0, 9]), "2/i": np.array([2, 3])})
    outcome = penstock("run", lookup, "--inputs", "i.npz", "--output", "out", "--json")
    assert outcome.code == 1
    assert (outcome.json["ok"], outcome.json["errors"]) == (2, 1)
    assert "frame 1" in outcome.error
    assert "stage0" in outcome.error
    assert np.array_equal(np.load(tmp_path / "out/000002/y.npy"), [2, 3])


@pytest.mark.parametrize("command", [("run", "--frames", "1"), ("bench", "--seconds", "0.1")])
def test_a_random_frame_that_fails_tells_what_to_bind(penstock, well, tmp_path, command):
    node = helper.make_node("Gather", ["x", "third"], ["y"], axis=1)
    model = save(tmp_path, "third", [node], [value("x", [1, "n"])], [value("y", [1])], {"third": np.array(3)})
    outcome = penstock(command[0], model, *command[1:])
    assert outcome.code == 1
    assert "the inputs were random, open dimensions taken as 1 in 'x': fix sizes (--shape," in outcome.error
    assert ", or give frames that come out (--input)" in outcome.error
    assert well(command[0], model, *command[1:], "--shape", "x=1x4")


COMMANDS = [("run",), ("build", "--budget", "1s", "-o", "p"), ("bench", "--seconds", "0.1")]


@pytest.mark.parametrize("command", COMMANDS)
def test_given_values_that_do_not_fit_each_other_are_named_with_their_sizes(penstock, tmp_path, command):
    node = helper.make_node("Add", ["a", "b"], ["y"], "add")
    model = save(tmp_path, "sum", [node], [value("a", ["m", 2]), value("b", ["n", 2])], [value("y", ["k", 2])])
    np.savez(tmp_path / "f.npz", a=np.ones((3, 2), np.float32), b=np.ones((5, 2), np.float32))
    np.save(tmp_path / "a.npy", np.ones((3, 2), np.float32))
    np.save(tmp_path / "b.npy", np.ones((4, 2), np.float32))
    outcome = penstock(command[0], model, *command[1:], "--inputs", "f.npz")
    assert outcome.code == 1
    said = "3 by 5; the frame is made of inputs 'a' f32[3,2], 'b' f32[5,2] (--inputs): give sizes and values that"
    assert said in outcome.error
    outcome = penstock(command[0], model, *command[1:], "--input", "a=a.npy", "--input", "b=b.npy")
    assert (
        "3 by 4; the frame is made of inputs 'a' f32[3,2], 'b' f32[4,2] (--input): give sizes and values"
        in outcome.error
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_given_value_that_is_divided_by_is_named(penstock, tmp_path, command):
    node = helper.make_node("Div", ["n", "d"], ["y"], "ratio")
    integer = [value(name, [2], TensorProto.INT64) for name in ("n", "d", "y")]
    model = save(tmp_path, "ratio", [node], integer[:2], integer[2:])
    for name, given in (("n", [1, 2]), ("d", [1, 0])):
        np.save(tmp_path / f"{name}.npy", np.array(given))
    outcome = penstock(command[0], model, *command[1:], "--input", "n=n.npy", "--input", "d=d.npy")
    assert outcome.code == 1
    assert (
        "by zero; the frame is made of inputs 'n' i64[2], 'd' i64[2] (--input): give sizes and values" in outcome.error
    )


def test_the_sizes_told_of_a_failed_frame_are_its_own(penstock, tmp_path):
    node = helper.make_node("Add", ["a", "b"], ["y"], "add")
    model = save(tmp_path, "sum", [node], [value("a", ["m", 2]), value("b", ["n", 2])], [value("y", ["k", 2])])
    sizes = [(3, 3), (3, 5), (7, 7)]
    given = {
        f"{i}/{name}": np.ones((size, 2), np.float32)
        for i, pair in enumerate(sizes)
        for name, size in zip("ab", pair, strict=True)
    }
    np.savez(tmp_path / "f.npz", **given)
    outcome = penstock("run", model, "--inputs", "f.npz")
    assert "frame 1: " in outcome.error
    assert "the frame is made of inputs 'a' f32[3,2], 'b' f32[5,2] (--inputs)" in outcome.error


def test_an_error_may_stop_the_pipeline(penstock, lookup, tmp_path):
    np.savez(tmp_path / "i.npz", i=np.array([0, 9]))
    outcome = penstock("run", lookup, "--inputs", "i.npz", "--frames", "1000", "--on-error", "stop", "--json")
    assert outcome.code == 1
    assert outcome.json["errors"] >= 1
    assert outcome.json["frames"] < 1000


def test_dropped_frames_are_counted_and_are_no_failures(well, package):
    report = well("run", package, "--frames", "2000", "--policy", "latest", "--json").json
    assert report["ok"] + report["drops"] == 2000
    assert report["errors"] == 0


def test_a_trace_has_every_frame(well, package, tmp_path):
    well("run", package, "--frames", "7", "--trace", "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert len(trace["traceEvents"]) >= 14


@pytest.mark.sweep(of=3)
def test_a_trace_too_long_to_be_kept_says_what_it_lost(well, double, cpu):
    well("split", double, "--devices", f"cpu:{cpu}", "-o", "double.penstock")
    err = well("run", "double.penstock", "--frames", "100007", "--trace", "trace.json").err
    assert "last 100000 frames; 7 spans of earlier ones are lost" in err


@pytest.mark.usefixtures("own_costs")
def test_a_full_disk_is_an_error(program, penstock, chain, package):
    for command in [
        ("run", package, "--frames", "1", "--trace", "/dev/full"),
        ("plan", chain, "--svg", "/dev/full"),
        ("costs", "export", "/dev/full"),
    ]:
        outcome = penstock(*command)
        assert (outcome.code, "'/dev/full'" in outcome.error) == (1, True), outcome
    with open("/dev/full", "w") as full:
        done = subprocess.run([program, "show", chain], stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, b"standard output" in done.stderr) == (1, True), done


def test_an_interrupt_ends_in_good_order(running, package):
    with running(package, "--json") as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert json.loads(out)["interrupted"] is True


def test_signals_at_once_are_one_interrupt(running, package, tmp_path):
    """As of coreutils' `timeout`, which signals the command and then its group."""
    with running(package, "--json", "--trace", tmp_path / "trace.json") as process:
        for _ in range(4):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.001)  # Else the system makes them one.
        out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert json.loads(out)["interrupted"] is True
    assert (tmp_path / "trace.json").exists()


def pushed_until(process, line):
    """What it writes to standard error up to this line."""
    lines = iter(process.stderr.readline, "")
    assert any(line in found for found in lines), line


def test_the_report_tells_which_package_took_how_many_frames(running, well, chain, tmp_path):
    well("split", chain, "-o", tmp_path / "p")
    with running(tmp_path / "p") as process:
        for _ in range(2):
            process.send_signal(signal.SIGHUP)
            pushed_until(process, "penstock: SIGHUP: replaced")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    (line,) = [line for line in out.splitlines() if line.startswith("frames by package: ")]
    assert line.endswith(" as read at SIGHUP 2; the tables are of the last one"), (out, err)
    counts = [int(count) for count in re.findall(r"(\d+) as read at", line)]
    assert sum(counts) == int(re.search(r": (\d+) frames in ", out)[1])


def test_a_hangup_replaces_the_package(running, well, chain, tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    package = tmp_path / "chain.penstock.zip"
    well("split", chain, "-o", package)
    with running(package, "--json") as process:
        package.unlink()
        process.send_signal(signal.SIGHUP)
        pushed_until(process, "SIGHUP: not replaced: ")
        well("split", chain, "--cut", "1", "-o", package)
        process.send_signal(signal.SIGHUP)
        pushed_until(process, "penstock: SIGHUP: replaced")
        assert list((tmp_path / "tmp").iterdir()) == []
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    report = json.loads(out)
    assert len(report["stages"]) == 2  # Of the new one.
    assert (report["errors"], report["cancelled"], report["ok"]) == (0, 0, report["frames"])
    old, new = report["packages"]
    assert (old["read"], new["read"]) == ("at the start", "at SIGHUP 2")
    assert old["frames"] > 0
    assert old["frames"] + new["frames"] == report["frames"]
    assert {stage["frames"] for stage in report["stages"]} == {new["frames"]}
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_terminal_that_closes_ends_it(program, package):
    terminal, inside = os.openpty()
    process = subprocess.Popen(
        ["env", "--default-signal=HUP", program, "run", package, "--rate", "50", "--frames", "100000", "-v"],
        stdin=inside,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    with process:
        os.close(inside)
        pushed_until(process, "stages started")
        os.close(terminal)
        process.communicate(timeout=60)
    assert process.returncode == 129


def test_frames_that_flow_need_no_temporary_folder(running, well, chain, tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    well("split", chain, "-o", tmp_path / "chain.penstock.zip")
    for source in chain, tmp_path / "chain.penstock.zip":
        with running(source, "--output", "-") as process:
            assert "outputs" in process.stdout.readline()
            assert list((tmp_path / "tmp").iterdir()) == []  # So whatever kills it leaves none.


def test_what_is_late_is_not_laid_to_random_inputs(penstock, package):
    late = penstock("run", package, "--max-age", "0.001", "--frames", "1")
    assert late.code == 1
    assert late.error.endswith("s since its push, at most 1 us allowed")


def test_a_hangup_behind_the_last_frame_is_answered(program, package, tmp_path):
    """The trace goes to a pipe that it fills: whoever reads its beginning knows that all frames are through."""
    os.mkfifo(tmp_path / "trace.json")
    command = ["env", "--default-signal=HUP", program, "run", package, "--frames", "3000"]
    command += ["--trace", tmp_path / "trace.json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        with (tmp_path / "trace.json").open() as trace:
            process.send_signal(signal.SIGHUP)
            assert json.load(trace)["traceEvents"]
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "penstock: SIGHUP: not replaced: " in err and "no frame is left for it" in err


def test_a_file_of_several_frames_says_what_to_do(penstock, package, tmp_path):
    report = json.loads(penstock("show", package, "--json").out)
    (given,) = report["inputs"]
    dims = [dim if isinstance(dim, int) else 1 for dim in given["shape"]]
    np.save(tmp_path / "several.npy", np.zeros([5, *dims], np.float32))
    told = penstock("run", package, "--input", f"{given['name']}={tmp_path / 'several.npy'}").error
    assert "its first dimension seems to count frames: give a folder of files, one for each frame" in told
    (tmp_path / "wide.pb").write_bytes(numpy_helper.from_array(np.zeros(dims)).SerializeToString())
    told = penstock("run", package, "--input", f"{given['name']}={tmp_path / 'wide.pb'}").error
    assert told.endswith("give values of that type and shape, for one frame")


def test_a_hangup_that_is_ignored_stays_so(program, package):
    command = ["nohup", program, "run", package, "--rate", "50", "--frames", "100000", "-v"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while "stages started" not in process.stderr.readline():
            pass
        ignored = next(
            line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "SigIgn" in line
        )
        process.terminate()
        process.communicate(timeout=60)
    assert int(ignored.split()[1], 16) & 1 << (signal.SIGHUP - 1)
    assert process.returncode == 143


def threads_of(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("Threads:")[1].split()[0])


@pytest.mark.parametrize("command", ["run", "verify", "bench"])
def test_an_interrupt_ends_the_start_too(program, well, double, tmp_path, cpu, command):
    well("split", double, "--replicas", "1000", "--devices", f"cpu:{cpu}", "-o", tmp_path / "many.penstock")
    with subprocess.Popen([program, command, tmp_path / "many.penstock"], stderr=subprocess.PIPE, text=True) as process:
        while threads_of(process) < 10:
            time.sleep(0.001)
        process.send_signal(signal.SIGTERM)
        err = process.communicate(timeout=60)[1]
    assert process.returncode == 143, err
    assert re.search("penstock: error: interrupted: .*: stopped before it was started", err)


def test_a_package_with_too_many_instances_is_refused(penstock, package):
    plan = json.loads((package / "plan.json").read_text())
    plan["stages"][0]["devices"] *= 20_000
    (package / "plan.json").write_text(json.dumps(plan))
    outcome = penstock("run", package)
    assert (outcome.code, "20001 replicas in all: expected at most 1024" in outcome.error) == (1, True), outcome


@pytest.mark.parametrize(
    ("command", "begun"),
    [
        (["verify", "--frames", "100000000"], b"/100000000 frames"),
        (["bench", "--seconds", "10000"], b"stages started"),
    ],
    ids=["verify", "bench"],
)
def test_the_other_commands_end_likewise(program, package, command, begun):
    ours, terminal = pty.openpty()  # The bar is shown there only.
    with subprocess.Popen([program, *command, package, "--json", "-v"], stdout=subprocess.PIPE, stderr=terminal) as run:
        os.close(terminal)
        told = b""
        while begun not in told:  # Before, the signal ends the program with no report.
            told += os.read(ours, 4096)
        run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=60)
    os.close(ours)
    assert run.returncode == 130, told
    assert json.loads(out)["interrupted"] is True


def test_what_is_done_is_told_on_demand(well, chain, package):
    told = well("run", chain, "--frames", "2", "-v").err
    assert f"imported '{chain}': 4 nodes in the file, 4 after cleaning, 0 folded" in told
    for outcome in [well("run", package, "--frames", "2", "-v"), well("verify", package, "--frames", "2", "-v")]:
        assert "stage1: 2 nodes on cpu:" in outcome.err
        assert "libonnxruntime" in outcome.err
    assert well("run", package, "--frames", "2").err == ""


def test_a_missing_engine_is_told_once_and_is_not_another_version(penstock, package):
    outcome = penstock("run", package, env={"PENSTOCK_ONNXRUNTIME": "/nope"})
    assert outcome.code == 1
    assert "no usable ONNX Runtime found" in outcome.err
    assert "was made with" not in outcome.err


def test_outputs_of_an_earlier_run_do_not_remain_among_those_of_this_one(penstock, well, package, tmp_path):
    well("run", package, "--frames", "3", "--output", "out")
    well("run", package, "--frames", "3", "--output", "out")
    for frames in ["1", "2"]:
        outcome = penstock("run", package, "--frames", frames, "--output", "out")
        assert outcome.code == 1
        assert "earlier run" in outcome.error
    well("run", package, "--frames", "1", "--output", "single")
    outcome = penstock("run", package, "--frames", "2", "--output", "single")
    assert "'y.npy' of an earlier run" in outcome.error
    (tmp_path / "single/notes.txt").write_text("no output")
    well("run", package, "--frames", "1", "--output", "single")


def test_a_model_is_known_by_its_content_not_its_name(well, chain, package, tmp_path):
    model = tmp_path / "model.zip"
    model.write_bytes(chain.read_bytes())
    assert well("run", model, "--frames", "2", "--json").json["ok"] == 2
    assert well("show", model, "--json").json["nodes"]
    well("split", chain, "--cut", "1", "-o", "p.penstock.zip")
    (tmp_path / "p.penstock.zip").rename(tmp_path / "p.penstock")
    assert well("run", "p.penstock", "--frames", "2", "--json").json["ok"] == 2


def test_a_key_that_the_engine_does_not_know_is_refused(penstock, well, package):
    outcome = penstock("run", package, "--backend-option", "onnxruntime:foo=bar")
    assert outcome.code == 1
    for word in ["'onnxruntime:foo'", "graph_optimization_level", "session."]:
        assert word in outcome.error
    well("run", package, "--frames", "1", "--backend-option", "onnxruntime:session.intra_op.allow_spinning=0")


def test_a_frame_below_the_least_of_a_bound_cannot_be_asked_for(penstock, double):
    outcome = penstock("run", double, "--shape", "x=3..5x3")
    assert outcome.code == 2
    assert "no other least than 1" in outcome.error


def test_wrong_inputs_are_named(penstock, chain, double, tmp_path):
    np.save(tmp_path / "wrong_dtype.npy", np.zeros((1, 3, 4, 4), np.float64))
    np.save(tmp_path / "wrong_shape.npy", np.zeros((1, 3, 4, 5), np.float32))
    (tmp_path / "text.npy").write_text("this is no array at all")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.png").write_text("this is no picture")
    (tmp_path / "x.doc").write_text("?")
    (tmp_path / "all.npz").touch()
    (tmp_path / "nothing").mkdir()
    cases = {
        ("--input", "x=wrong_dtype.npy"): ["'x'", "expected f32[1,3,4,4], found f64[1,3,4,4]"],
        ("--input", "x=wrong_shape.npy"): ["'x'", "expected f32[1,3,4,4], found f32[1,3,4,5]; give"],
        ("--input", "x=text.npy"): ["'x'", "text.npy", "not a .npy file"],
        ("--input", "x=empty.npy"): ["'x'", "is empty"],
        ("--input", "x=absent.npy"): ["'x'", "absent.npy", "check the path"],
        ("--input", "x=text.png"): ["'x'", "text.png", "PNG, JPEG, BMP or binary PPM"],
        ("--input", "x=x.doc"): ["'x'", "x.doc", ".npy"],
        ("--input", "x=nowhere"): ["file 'nowhere': no such file or folder"],
        ("--input", "x=all.npz"): ["'x'", "all.npz", "--inputs FILE.npz"],
        ("--input", "z=wrong_shape.npy"): ["'z'", "'x'"],
        ("--inputs", "nothing"): ["nothing", "'x'"],
        ("--inputs", "absent.npz"): ["absent.npz"],
        ("--inputs", "absent"): ["'absent'"],
    }
    for arguments, words in cases.items():
        outcome = penstock("run", chain, *arguments)
        assert outcome.code == 1, (arguments, outcome)
        for word in words:
            assert word in outcome.error
    malformed = penstock("run", chain, "--input", "wrong_shape.npy")
    assert malformed.code == 2 and "NAME=FILE" in malformed.error


def test_import_options_beside_a_package_are_refused(penstock, package):
    outcome = penstock("run", package, "--shape", "x=1x3x4x4")
    assert outcome.code == 1
    assert "penstock split" in outcome.error


def test_an_output_folder_that_cannot_be_made_is_refused(penstock, package, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = penstock("run", package, "--frames", "1", "--output", "file/out")
    assert outcome.code == 1
    assert "file/out" in outcome.error


def test_a_wrong_engine_option_is_named(penstock, package):
    outcome = penstock("run", package, "--backend-option", "onnxruntime:execution_mode=many")
    assert outcome.code == 1
    assert "'onnxruntime:execution_mode'" in outcome.error
    assert "'many'" in outcome.error


@pytest.mark.parametrize("command", ["run", "bench"])
def test_options_of_a_backend_that_runs_no_stage_are_refused(penstock, package, command):
    outcome = penstock(command, package, "--backend-option", "nope:k=v")
    assert outcome.code == 1
    assert outcome.error.endswith("backend option 'nope:k': expected options of backend 'onnxruntime', found of 'nope'")


def external(location) -> TensorProto:
    tensor = TensorProto(name="e", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=str(location))
    return tensor


def in_an_initialiser(model, tensor):
    model.graph.initializer.append(tensor)


def in_a_branch(model, tensor):
    node = helper.make_node("Constant", [], ["e"], value=tensor)
    branch = helper.make_graph([node], "branch", [], [helper.make_tensor_value_info("e", TensorProto.FLOAT, [1])])
    model.graph.node.append(helper.make_node("If", ["c"], ["i"], then_branch=branch, else_branch=branch))


@pytest.mark.parametrize("put", [in_an_initialiser, in_a_branch])
@pytest.mark.parametrize("command", ["run", "bench", "verify", "show"])
def test_external_data_outside_a_package_are_refused(penstock, package, tmp_path, command, put):
    (tmp_path / "outside.data").write_bytes(bytes(4))
    stage = package / "stages/1.onnx"
    plain = stage.read_bytes()
    for location in ["../../outside.data", tmp_path / "outside.data"]:
        model = onnx.load_from_string(plain)
        put(model, external(location))
        stage.write_bytes(model.SerializeToString())
        plan = json.loads((package / "plan.json").read_text())
        plan["files"]["stages/1.onnx"] = hashlib.sha256(stage.read_bytes()).hexdigest()
        (package / "plan.json").write_text(json.dumps(plan))
        outcome = penstock(command, package)
        assert outcome.code == 1
        assert outcome.error == (
            f"package '{package}': model 'stages/1.onnx': expected external data in the model's folder, "
            f"found location '{location}'; move the file beside the model"
        )


@pytest.fixture
def newer(chain) -> Path:
    """An operator set that no engine has yet."""
    model = onnx.load(chain)
    model.opset_import[0].version = 99
    onnx.save(model, chain)
    return chain


@pytest.mark.parametrize("source", ["newer.onnx", "p", "p.penstock.zip"])
def test_an_engine_that_refuses_a_model_is_told_of_by_the_users_names(penstock, well, newer, tmp_path, source):
    newer.rename(tmp_path / "newer.onnx")
    if source != "newer.onnx":
        well("split", "newer.onnx", "-o", source)
    outcome = penstock("run", source, "--frames", "1")
    assert outcome.code == 1
    name = source if source == "newer.onnx" else "stages/0.onnx"
    assert outcome.error.startswith(f"stage 'stage0': model '{name}': the model names operator set 99, and")
    assert "another backend ('penstock backends'" in outcome.error
    assert "/tmp" not in outcome.error


def test_a_sequence_is_an_array_for_each_element_in_an_archive(well, tmp_path):
    pair = [helper.make_node("SequenceConstruct", ["x", "x"], ["y"])]
    file = save(tmp_path, "pair", pair, [value("x", [3])], [helper.make_tensor_sequence_value_info("y", 1, None)])
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.float32))
    well("run", file, "--input", "x=x.npy", "--output", "out.npz")
    written = np.load(tmp_path / "out.npz")
    assert sorted(written.files) == ["y.0000", "y.0001"] and written["y.0001"].tolist() == [0, 1, 2]
