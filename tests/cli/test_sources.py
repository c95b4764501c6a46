"""penstock run: where frames come from."""

import io
import json
import os
import pty
import signal
import subprocess
import wave
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import save, value
from onnx import TensorProto, helper, numpy_helper
from PIL import Image


@pytest.mark.parametrize("given", ["--inputs both.npz", "--inputs archives", "--input s=s.npy"])
@pytest.mark.parametrize("command", ["run sum.onnx --state y=s", "verify p", "build sum.onnx --state y=s -o b"])
def test_a_state_is_given_with_the_package_not_with_the_frames(penstock, well, tmp_path, command, given):
    ports = [value("x", [3]), value("s", [3])], [value("y", [3])]
    model = save(tmp_path, "sum", [helper.make_node("Add", ["x", "s"], ["y"], "add")], *ports)
    well("split", model, "--state", "y=s", "-o", "p")
    array = np.zeros(3, np.float32)
    np.save(tmp_path / "s.npy", array)
    (tmp_path / "archives").mkdir()
    for file in ("both.npz", "archives/0.npz"):
        np.savez(tmp_path / file, x=array, s=array)
    error = penstock(*command.split(), *given.split()).error
    assert "'s' is a state, which each frame reads of the one before: leave it out" in error
    assert "(--state)" in error
    assert "is no input" not in error


def copy_of(folder: Path, *shape) -> Path:
    """A model whose output y is its input x."""
    node = helper.make_node("Identity", ["x"], ["y"], "copy")
    return save(folder, "copy", [node], [value("x", list(shape))], [value("y", list(shape))])


def outputs(file: Path, name: str = "y") -> np.ndarray:
    """What an archive has for each frame, in their order."""
    with np.load(file) as archive:
        return np.array([archive[entry] for entry in sorted(archive.files) if entry.split("/")[-1] == name])


def write_sound(file: Path, samples: list[list[int]], rate: int = 16000) -> None:
    """PCM of 16 bits; a sample is a list of one number for each channel."""
    with wave.open(str(file), "wb") as sound:
        sound.setnchannels(len(samples[0]) if samples else 1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(np.array(samples, "<i2").tobytes())


@pytest.fixture
def rows(tmp_path) -> Path:
    """A folder of three arrays, whose names sort as written, and of what is no value."""
    folder = tmp_path / "rows"
    (folder / "sub.npy").mkdir(parents=True)
    for name in ["notes.txt", "._10.npy"]:
        (folder / name).write_text("no value")
    for i, name in enumerate(["10", "2", "a"]):
        np.save(folder / f"{name}.npy", np.full((1, 3), i, np.float32))
    return folder


def test_the_files_of_a_folder_are_frames_by_name(well, double, rows, tmp_path):
    report = well("run", double, "--input", f"x={rows}", "--output", "out.npz", "--json").json
    assert report["frames"] == 3
    assert outputs(tmp_path / "out.npz")[:, 0, 0].tolist() == [0, 2, 4]


@pytest.mark.parametrize("command", ["run", "bench", "build"])
def test_inputs_that_no_file_gives_are_named(penstock, tmp_path, command):
    """`a` is given, `b` is random: what is made of both is wrong, or of it a frame fails."""
    node = helper.make_node("Add", ["a", "b"], ["y"], "sum")
    model = save(tmp_path, "sum", [node], [value("a", ["m", 2]), value("b", ["n", 2])], [value("y", ["k", 2])])
    np.save(tmp_path / "a.npy", np.ones((3, 2), np.float32))
    np.save(tmp_path / "b.npy", np.ones((3, 2), np.float32))
    np.savez(tmp_path / "a.npz", a=np.ones((3, 2), np.float32))
    more = {"run": [], "bench": ["--seconds", "0.1"], "build": ["--budget", "1s", "-o", "p"]}[command]
    told = "input 'b' is random: give its values (--input b=FILE), or bind it (--constant; in an application"
    wide = ["--shape", "b=5x2"]
    for given, option in (["--input", "a=a.npy"], "--input"), (["--inputs", "a.npz"], "--inputs"):
        outcome = penstock(command, model, *more, *given, *wide)
        made_of = f"; the frame is made of inputs 'a' f32[3,2] ({option}), random 'b' f32[5,2]: give sizes and values"
        assert made_of in outcome.error
        assert outcome.err.count(told) == (command == "run")
    if command == "run":
        assert told not in penstock("run", model, "--input", "a=a.npy", "--input", "b=b.npy").err


def test_more_frames_repeat_a_folder_and_fewer_cut_it(well, double, rows, tmp_path):
    for frames, expected in [("5", [0, 2, 4, 0, 2]), ("2", [0, 2])]:
        well("run", double, "--input", f"x={rows}", "--frames", frames, "--output", "out.npz")
        assert outputs(tmp_path / "out.npz")[:, 0, 0].tolist() == expected


def test_a_folder_of_pictures_may_have_several_kinds(well, absolute, tmp_path):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "photos").mkdir()
    for i, name in enumerate(["a.png", "b.JPG", "c.jpeg", "d.bmp"]):
        image.new("RGB", (16, 8), (60 * i, 0, 0)).save(tmp_path / "photos" / name)
    well("run", absolute, "--input", "x=photos", "--output", "out.npz")
    reds = outputs(tmp_path / "out.npz")[:, 0, 0, 4, 4]
    assert np.allclose(reds, np.arange(4) * 60 / 255, atol=0.02)


def test_a_folder_and_a_file_serve_two_inputs(penstock, well, rows, tmp_path):
    node = helper.make_node("Add", ["a", "b"], ["y"], "add")
    model = save(tmp_path, "add", [node], [value("a", [1, 3]), value("b", [1, 3])], [value("y", [1, 3])])
    np.save(tmp_path / "ten.npy", np.full((1, 3), 10, np.float32))
    well("run", model, "--input", f"a={rows}", "--input", "b=ten.npy", "--output", "out.npz")
    assert outputs(tmp_path / "out.npz")[:, 0, 0].tolist() == [10, 11, 12]

    (tmp_path / "two").mkdir()
    for name in ["a.npy", "b.npy"]:
        np.save(tmp_path / "two" / name, np.zeros((1, 3), np.float32))
    outcome = penstock("run", model, "--input", f"a={rows}", "--input", "b=two")
    assert outcome.code == 1
    assert outcome.error == "input 'b': expected 1 or 3 values, as many as the other inputs have, found 2"


@pytest.fixture
def archives(tmp_path) -> Path:
    """A folder of three archives, each one frame of two inputs."""
    folder = tmp_path / "archives"
    folder.mkdir()
    for i, name in enumerate(["10", "2", "a"]):
        np.savez(folder / f"{name}.npz", a=np.full((1, 3), i, np.float32), b=np.full((1, 3), 10 * i, np.float32))
    return folder


def sum_of_two(folder: Path) -> Path:
    node = helper.make_node("Add", ["a", "b"], ["y"], "sum")
    return save(folder, "sum", [node], [value("a", [1, 3]), value("b", [1, 3])], [value("y", [1, 3])])


def test_a_frames_files_beside_folders_of_frames_are_refused(penstock, well, tmp_path):
    model = sum_of_two(tmp_path)
    for folder in ("frames", "frames/1", "frames/notes"):
        (tmp_path / folder).mkdir()
    for file in ("a.npy", "b.npy"):
        np.save(tmp_path / "frames" / file, np.ones((1, 3), np.float32))
    (tmp_path / "frames/notes/read.txt").write_text("no frame")
    assert well("run", model, "--inputs", tmp_path / "frames", "--json").json["frames"] == 1
    np.save(tmp_path / "frames/1/b.npy", np.ones((1, 3), np.float32))
    error = penstock("run", model, "--inputs", tmp_path / "frames").error
    assert (
        f"folder '{tmp_path / 'frames/1'}': expected no file of an input, as some lie beside it, found 'b.npy'" in error
    )


def test_an_archive_of_a_folder_may_end_in_capitals(well, archives, tmp_path):
    (archives / "a.npz").rename(archives / "A.NPZ")
    report = well("run", sum_of_two(tmp_path), "--inputs", archives, "--output", "out.npz", "--json").json
    assert report["frames"] == 3


def test_the_archives_of_a_folder_are_frames_by_name(penstock, well, archives, tmp_path, cpu):
    model = sum_of_two(tmp_path)
    for name in ["notes.txt", "._10.npz"]:
        (archives / name).write_text("no frame")
    report = well("run", model, "--inputs", archives, "--output", "out.npz", "--json").json
    assert report["frames"] == 3
    assert outputs(tmp_path / "out.npz")[:, 0, 0].tolist() == [0, 11, 22]
    lines = well("run", model, "--inputs", archives, "--frames", "4", "--output", "-").out.splitlines()
    assert [json.loads(line)["files"] for line in lines] == [
        {"a": name, "b": name} for name in ["10.npz", "2.npz", "a.npz", "10.npz"]
    ]
    well("bench", model, "--inputs", archives, "--seconds", "0.3")
    well("split", model, "--devices", f"cpu:{cpu}", "-o", "p")
    assert well("verify", "p", "--inputs", archives, "--json").json["frames"] == 3
    beside = penstock("run", model, "--input", f"a={archives}")
    assert "a folder of .npz files is for all inputs: --inputs FOLDER" in beside.error


def test_a_bad_archive_of_a_folder_is_an_error_of_its_frame(penstock, archives, tmp_path):
    model = sum_of_two(tmp_path)
    good = np.ones((1, 3), np.float32)
    np.savez(archives / "3.npz", a=good)
    np.savez(archives / "4.npz", a=good, b=good, c=good)
    np.savez(archives / "5.npz", a=good, b=good.astype(np.float64))
    (archives / "6.npz").write_bytes(b"no zip")
    outcome = penstock("run", model, "--inputs", archives, "--json")
    assert (outcome.code, outcome.json["ok"], outcome.json["errors"]) == (1, 3, 4)
    messages = [failure["message"] for failure in outcome.json["failures"]]
    for name, said in [
        ("3", "expected an array 'b', as the first archive of the folder has one, found none"),
        ("4", "array 'c' is no input; the inputs are"),
        ("5", "expected f32[1,3], found f64[1,3]"),
        ("6", ""),
    ]:
        assert any(f"{archives / name}.npz'" in message and said in message for message in messages), (name, messages)
    (archives / "0.npz").write_bytes(b"no zip")
    assert f"{archives / '0.npz'}'" in penstock("run", model, "--inputs", archives).error


def test_an_array_that_the_first_archive_lacks_is_not_dropped(penstock, tmp_path):
    model, one = sum_of_two(tmp_path), np.ones((1, 3), np.float32)
    folder = tmp_path / "growing"
    folder.mkdir()
    np.savez(folder / "0.npz", a=one)
    np.savez(folder / "1.npz", a=one, b=one)
    outcome = penstock("run", model, "--inputs", folder, "--json")
    assert (outcome.json["ok"], outcome.json["errors"]) == (1, 1)
    (failure,) = outcome.json["failures"]
    assert "expected 1 array, as many as the folder's first archive has, found 2" in failure["message"]


def test_bench_and_verify_take_folders(well, double, rows, cpu):
    well("split", double, "--devices", f"cpu:{cpu}", "-o", "double.penstock")
    assert well("verify", "double.penstock", "--input", f"x={rows}", "--json").json["frames"] == 3
    well("bench", "double.penstock", "--input", f"x={rows}", "--seconds", "0.1")


def test_a_folder_without_values_is_named(penstock, double, tmp_path):
    (tmp_path / "empty").mkdir()
    outcome = penstock("run", double, "--input", "x=empty")
    assert outcome.code == 1
    assert outcome.error.startswith("input 'x': folder 'empty': expected files ending in .npy")
    assert "found none: put them there" in outcome.error
    for name in ["b.webp", "a.webp"]:
        (tmp_path / "empty" / name).touch()
    assert "found others alone, such as 'a.webp': put them" in penstock("run", double, "--input", "x=empty").error


def test_files_of_a_folder_that_are_left_out_are_told(penstock, well, double, tmp_path):
    folder = tmp_path / "mixed"
    (folder / "more").mkdir(parents=True)
    np.save(folder / "0.npy", np.zeros((1, 3), np.float32))
    command = ["run", double, "--input", "x=mixed"]
    (folder / ".hidden.webp").touch()
    assert "left out" not in well(*command).err
    for name in ["w.webp", "a.tif"]:
        (folder / name).touch()
    told = "2 files of 'mixed' are left out, such as 'a.tif': expected names ending in .npy, .pb, .png"
    assert well(*command).err.count(told) == 1
    (folder / "0.npy").unlink()
    (folder / "more").rmdir()
    (folder / "a.png").touch()
    assert penstock("run", double, "--inputs", "mixed").error.endswith("one for each frame: --input x=mixed")


def test_a_folder_of_sounds_is_told_how_one_is_given(penstock, tmp_path):
    (tmp_path / "sounds").mkdir()
    for name in ["b.wav", "a.wav"]:
        write_sound(tmp_path / "sounds" / name, [[1]] * 8)
    error = penstock("run", copy_of(tmp_path, 1, 4), "--input", "x=sounds").error
    assert (
        "found others alone, such as 'a.wav': put them there, or give one sound, whose blocks are the frames: " in error
    )
    assert error.endswith("--input x=sounds/a.wav")


def test_a_picture_that_was_saved_as_it_was_read_is_told_how_it_fits(penstock, absolute, tmp_path):
    np.save(tmp_path / "picture.npy", np.zeros((20, 30, 3), np.uint8))
    error = penstock("run", absolute, "--input", "x=picture.npy").error
    assert error.startswith("input 'x': file 'picture.npy': expected f32[1,3,8,8], found u8[20,30,3]; it seems to be a")
    assert (
        "give the picture's own file, such as a .png, which is made to fit, or save what penstock.io.prepare()" in error
    )


def test_a_bad_file_of_a_folder_is_an_error_of_its_frame(penstock, double, rows):
    (rows / "2.npy").write_text("this is no array at all")
    outcome = penstock("run", double, "--input", f"x={rows}", "--frames", "5", "--output", "-")
    assert outcome.code == 1
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    files = ["10.npy", "2.npy", "a.npy", "10.npy", "2.npy"]
    assert [(line["frame"], line["files"]["x"]) for line in lines] == list(enumerate(files))
    assert [line["outputs"]["y"][0][0] for line in lines if "outputs" in line] == [0, 4, 0]
    assert lines[1]["error"]["message"].startswith(f"input 'x': file '{rows / '2.npy'}': is not a .npy file")
    assert "2 errors" in outcome.err


def test_a_bad_file_of_a_folder_ends_the_stream_where_errors_do(penstock, double, rows, tmp_path):
    (rows / "2.npy").write_text("this is no array at all")
    arguments = ["--input", f"x={rows}", "--on-error", "stop", "--output", "out.npz", "--json"]
    outcome = penstock("run", double, *arguments)
    assert outcome.code == 1
    assert outcome.error.startswith(f"input 'x': file '{rows / '2.npy'}': is not a .npy file")
    told = [failure["message"] for failure in outcome.json["failures"]]
    assert (outcome.json["frames"], told) == (1, [outcome.error])  # Those before it came out.
    assert len(outputs(tmp_path / "out.npz")) == 1


def test_a_first_file_that_is_bad_is_told_before_anything_runs(penstock, double, rows):
    (rows / "10.npy").write_text("this is no array at all")
    outcome = penstock("run", double, "--input", f"x={rows}")
    assert outcome.code == 1
    assert outcome.error.startswith(f"input 'x': file '{rows / '10.npy'}': is not a .npy file")


@pytest.fixture
def pictures(tmp_path) -> Path:
    """A folder of three pictures, of which the first is text and the last cut off."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "1.png").write_text("no picture at all")
    for name, colour in (("2.png", 200), ("3.jpg", 50), ("4.png", 90)):
        Image.new("RGB", (4, 4), (colour, 0, 0)).save(folder / name)
    (folder / "4.png").write_bytes((folder / "4.png").read_bytes()[:50])
    return folder


@pytest.mark.parametrize("command", ["build -o b --budget 1s --backends onnxruntime", "verify", "bench --seconds 0.1"])
def test_files_of_a_folder_that_cannot_be_read_are_left_out_by_name(well, chain, pictures, own_costs, cpu, command):
    name, *options = command.split()
    well("split", chain, "--devices", f"cpu:{cpu}", "-o", "chain.penstock")
    file = chain if name == "build" else "chain.penstock"
    outcome = well(name, file, "--input", f"x={pictures}", "--json", *options)
    told = [line for line in outcome.err.splitlines() if "is left out, as it cannot be read" in line]
    assert len(told) == 2, outcome
    assert "--input: frame 0 ('1.png' of 'x') is left out, as it cannot be read: input 'x': picture" in told[0]
    assert "--input: frame 3 ('4.png' of 'x') is left out, as it cannot be read: input 'x': picture" in told[1]
    if name == "verify":
        assert outcome.json["frames"] == 2
    if name == "bench":
        assert [note.split(" is ")[0] for note in outcome.json["left_out"]] == [
            "frame 0 ('1.png' of 'x')",
            "frame 3 ('4.png' of 'x')",
        ]


@pytest.mark.parametrize("command", ["build -o b --budget 1s", "verify", "bench --seconds 0.1"])
def test_a_folder_of_which_nothing_can_be_read_is_refused(penstock, well, chain, pictures, cpu, command):
    name, *options = command.split()
    well("split", chain, "--devices", f"cpu:{cpu}", "-o", "chain.penstock")
    for kept in ("2.png", "3.jpg"):
        (pictures / kept).unlink()
    file = chain if name == "build" else "chain.penstock"
    refused = penstock(name, file, "--input", f"x={pictures}", *options)
    assert refused.code == 1
    assert refused.error.startswith(f"input 'x': picture '{pictures / '1.png'}': ")
    assert refused.error.endswith("; of the frames behind it, 1 in all, none can be read either")


def test_lines_name_the_files_of_each_input(well, rows, tmp_path):
    node = helper.make_node("Add", ["a", "b"], ["y"], "add")
    model = save(tmp_path, "add", [node], [value("a", [1, 3]), value("b", [1, 3])], [value("y", [1, 3])])
    np.save(tmp_path / "ten.npy", np.full((1, 3), 10, np.float32))
    for b, expected in [("ten.npy", {"a": "10.npy"}), (rows, {"a": "10.npy", "b": "10.npy"})]:
        outcome = well("run", model, "--input", f"a={rows}", "--input", f"b={b}", "--output", "-")
        assert json.loads(outcome.out.splitlines()[0])["files"] == expected


def test_a_sound_is_cut_into_frames_and_filled_with_zeros(well, tmp_path):
    write_sound(tmp_path / "s.WAV", [[16384]] * 10)
    model = copy_of(tmp_path, 1, 4)
    report = well("run", model, "--input", "x=s.WAV", "--output", "out.npz", "--json").json
    assert report["frames"] == 3
    np.testing.assert_array_equal(outputs(tmp_path / "out.npz").ravel(), [0.5] * 10 + [0] * 2)


def test_a_sounds_frames_overlap_by_the_hop(well, tmp_path):
    write_sound(tmp_path / "s.wav", [[16384 * (i % 2)] for i in range(6)])
    model = copy_of(tmp_path, 1, 4)
    report = well("run", model, "--input", "x=s.wav", "--hop", "3", "--output", "out.npz", "--json").json
    assert report["frames"] == 2
    np.testing.assert_array_equal(outputs(tmp_path / "out.npz")[:, 0], [[0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0]])


def test_a_sound_of_another_rate_is_refused_where_one_is_said(penstock, well, tmp_path):
    for rate in (8000, 16000):
        write_sound(tmp_path / f"{rate}.wav", [[16384]] * 4, rate=rate)
    model = copy_of(tmp_path, 1, 4)
    well("run", model, "--input", "x=8000.wav", "--sample-rate", "8000")
    for command in (["run"], ["bench", "--seconds", "1"], ["build", "--budget", "1s", "-o", "b.penstock"]):
        error = penstock(command[0], model, *command[1:], "--input", "x=16000.wav", "--sample-rate", "8000").error
        assert "sound '16000.wav': expected 8000 samples a second, found 16000; convert it, such as by" in error
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
    assert (
        "--sample-rate: is for a sound" in penstock("run", model, "--input", "x=x.npy", "--sample-rate", "8000").error
    )


def test_sounds_that_differ_in_their_rate_are_told_of_once(well, tmp_path):
    for rate in (8000, 16000):
        write_sound(tmp_path / f"{rate}.wav", [[16384]] * 4, rate=rate)
    model = copy_of(tmp_path, 1, 4)
    both = ("--input", "x=8000.wav", "--input", "x=16000.wav")
    told = "the sounds differ: '8000.wav' has 8000 samples a second, '16000.wav' has 16000 samples a second"
    assert well("run", model, *both).err.count(told) == 1
    assert well("bench", model, "--seconds", "1", *both).err.count(told) == 1
    assert "sounds differ" not in well("run", model, "--input", "x=8000.wav", "--input", "x=8000.wav").err


DECODES = """penstock_app: 1
inputs: {file: "u8[n<=4000]"}
nodes:
  decode: {ready: decode, inputs: {bytes: file}}
  fit: {ready: resize, options: {size: [2, 2]}, inputs: {image: decode.image}}
outputs: {image: fit.image}
"""


def test_an_input_of_bytes_takes_the_files_themselves(penstock, well, tmp_path):
    (tmp_path / "app.yaml").write_text(DECODES)
    (tmp_path / "pictures").mkdir()
    picture = b"P6 2 2 255 " + bytes(range(12))
    for name in ("a.ppm", "b.picture"):
        (tmp_path / "pictures" / name).write_bytes(picture)
    (tmp_path / "pictures/.hidden").write_bytes(b"no picture")
    np.save(tmp_path / "pictures/c.npy", np.frombuffer(picture, np.uint8))
    for given, count in (("pictures", 3), ("pictures/a.ppm", 1), ("pictures/c.npy", 1)):
        lines = well("run", "app.yaml", "--input", f"file={given}", "--output", "-").out.splitlines()
        assert [json.loads(line)["outputs"]["image"][1][1] for line in lines] == [[9, 10, 11]] * count
    well("bench", "app.yaml", "--input", "file=pictures", "--seconds", "1")
    well("build", "app.yaml", "--input", "file=pictures", "--budget", "1s", "-o", "b.penstock")
    error = penstock("run", "app.yaml", "--frames", "1").error
    assert error.endswith("the inputs were random: give files, whose bytes are the values of 'file' (--input)")
    (tmp_path / "large.ppm").write_bytes(bytes(4001))
    assert "expected at most 4000 bytes, found 4001" in penstock("run", "app.yaml", "--input", "file=large.ppm").error


def test_what_a_function_refuses_is_no_advice_on_networks(penstock, tmp_path):
    (tmp_path / "app.yaml").write_text(DECODES.replace("{ready: decode,", "{ready: decode, options: {most: [1, 2]},"))
    (tmp_path / "a.ppm").write_bytes(b"P6 2 2 255 " + bytes(range(12)))
    told = "at most 1 rows and 2 columns, found 2 and 2; allow more by its setting 'most', such as [2, 2]"
    error = penstock("run", "app.yaml", "--input", "file=a.ppm").error
    assert error.endswith(f"{told}; the frame is made of input 'file' u8[23] (--input)")


def test_of_an_input_of_bytes_a_folder_without_files_is_named(penstock, tmp_path):
    (tmp_path / "app.yaml").write_text(DECODES)
    (tmp_path / "empty").mkdir()
    told = "input 'file': folder 'empty': expected files, one for each frame; found "
    assert penstock("run", "app.yaml", "--input", "file=empty").error.startswith(told + "none: put them there, or")
    (tmp_path / "empty/all.npz").touch()
    error = penstock("run", "app.yaml", "--input", "file=empty").error
    assert error.startswith(told + "others alone, such as 'all.npz': put")


def test_of_an_input_of_bytes_models_and_sounds_are_bytes_too(penstock, well, tmp_path):
    (tmp_path / "app.yaml").write_text(DECODES)
    (tmp_path / "a.onnx").write_bytes(b"P6 2 2 255 " + bytes(range(12)))
    out = well("run", "app.yaml", "--input", "file=a.onnx", "--output", "-").out
    assert json.loads(out)["outputs"]["image"][1][1] == [9, 10, 11]
    for rate in (8000, 16000):
        write_sound(tmp_path / f"{rate}.wav", [[16384]] * 4, rate=rate)
    both = ("--input", "file=8000.wav", "--input", "file=16000.wav")
    assert "sounds differ" not in penstock("run", "app.yaml", *both).err
    for option in ("--sample-rate", "--hop"):
        error = penstock("run", "app.yaml", "--input", "file=8000.wav", option, "8000").error
        assert error.startswith(f"{option}: is for a sound")


def test_channels_are_kept_where_the_input_has_them_and_averaged_where_not(well, tmp_path):
    write_sound(tmp_path / "s.wav", [[0, 16384], [-16384, 0], [8192, 8192]])
    left, right = [0, -0.5, 0.25], [0.5, 0, 0.25]
    mean = [0.25, -0.25, 0.25]
    for shape, expected in [
        ((3,), mean),
        ((1, 1, 3), mean),
        ((1, 2, 3), [left, right]),
        ((3, 2), np.transpose([left, right])),
    ]:
        model = copy_of(tmp_path, *shape)
        well("run", model, "--input", "x=s.wav", "--output", "out.npz")
        np.testing.assert_array_equal(outputs(tmp_path / "out.npz")[0], np.reshape(expected, shape))


def test_an_open_number_of_samples_is_taken_at_its_bound(penstock, well, tmp_path):
    write_sound(tmp_path / "s.wav", [[16384]] * 6)
    model = copy_of(tmp_path, "batch", "n")
    outcome = penstock("run", model, "--input", "x=s.wav")
    assert outcome.code == 1
    assert "does not say how many samples; fix them (--shape, in an application 'inputs')" in outcome.error
    well("run", model, "--shape", "x=?x1..3", "--input", "x=s.wav", "--output", "out.npz")
    assert outputs(tmp_path / "out.npz").shape == (2, 1, 3)


def test_sounds_that_do_not_fit_are_named(penstock, chain, tmp_path):
    write_sound(tmp_path / "stereo.wav", [[1, 2]] * 8)
    write_sound(tmp_path / "empty.wav", [])
    (tmp_path / "text.wav").write_text("this is no sound at all")
    sound = copy_of(tmp_path, 1, 4)
    for model, file, words in [
        (chain, "stereo.wav", ["f32[1,3,4,4]", "2 channels", "[1,N]", "[2,N] or [N,2]"]),
        (sound, "empty.wav", ["expected samples, found none"]),
        (sound, "text.wav", ["does not begin as a WAV file"]),
        (sound, "absent.wav", ["no such file"]),
    ]:
        outcome = penstock("run", model, "--input", f"x={file}")
        assert outcome.code == 1
        for word in ["input 'x'", f"sound '{file}'", *words]:
            assert word in outcome.error


def test_a_rate_and_a_policy_hold_for_folders(well, double, rows):
    report = well("run", double, "--input", f"x={rows}", "--frames", "20", "--rate", "100", "--json").json
    assert report["ok"] == 20
    assert report["seconds"] >= 0.19
    report = well("run", double, "--input", f"x={rows}", "--frames", "500", "--policy", "latest", "--json").json
    assert report["ok"] + report["drops"] == 500
    assert report["errors"] == 0


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture
def piped(program, tmp_path):
    """Runs `penstock run` with bytes as its standard input; what it wrote, and its lines of JSON."""

    def run(model, data: bytes, *options):
        command = [program, "run", model, "--input", "x=-", "--output", "-", *map(str, options)]
        done = subprocess.run(command, input=data, cwd=tmp_path, capture_output=True, timeout=60, check=False)
        return done, [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_standard_input_without_a_frame_is_told(piped, absolute):
    """The program before the pipe may have failed; a run of no frames is none that failed."""
    done, lines = piped(absolute, b"")
    assert (done.returncode, lines) == (0, [])
    assert b"warning: standard input ended before the first frame" in done.stderr


def values_of(lines: list[dict]) -> list:
    return [line["outputs"]["y"] for line in lines]


def told(done: subprocess.CompletedProcess) -> str:
    (line,) = [line for line in done.stderr.decode().splitlines() if line.startswith("penstock: error: ")]
    return line.removeprefix("penstock: error: ")


@pytest.mark.parametrize("dtype", ["<f4", "<i8", "u1"])
def test_plain_frames_come_from_standard_input(piped, tmp_path, dtype):
    kinds = {"<f4": TensorProto.FLOAT, "<i8": TensorProto.INT64, "u1": TensorProto.UINT8}
    node = helper.make_node("Identity", ["x"], ["y"], "copy")
    kind = kinds[dtype]
    model = save(tmp_path, "copy", [node], [value("x", [1, 3], kind)], [value("y", [1, 3], kind)])
    frames = np.arange(600).reshape(200, 1, 3).astype(dtype)
    done, lines = piped(model, frames.tobytes())
    assert done.returncode == 0, done.stderr
    assert values_of(lines) == frames.tolist()


@pytest.mark.parametrize("frames", [[0x93], [0x93, 1, 2], [1, 0x93, 0x93]])
def test_frames_of_a_byte_come_from_standard_input(piped, tmp_path, frames):
    """Such as begin as a .npy file does: more than a frame is read to know that they are none."""
    node = helper.make_node("Identity", ["x"], ["y"], "copy")
    model = save(tmp_path, "copy", [node], [value("x", [1], TensorProto.UINT8)], [value("y", [1], TensorProto.UINT8)])
    done, lines = piped(model, bytes(frames))
    assert done.returncode == 0, done.stderr
    assert values_of(lines) == [[frame] for frame in frames]


def test_arrays_of_different_shapes_come_from_standard_input(piped, double):
    frames = [np.full((rows, 3), rows, np.float32) for rows in (1, 4, 2)]
    done, lines = piped(double, b"".join(map(npy, frames)))
    assert done.returncode == 0, done.stderr
    assert values_of(lines) == [(2 * frame).tolist() for frame in frames]


def test_frames_end_standard_input_early_and_do_not_repeat_it(piped, absolute):
    frame = bytes(4 * 3 * 8 * 8)
    for options, expected in [(["--frames", "2"], 2), (["--frames", "9"], 3), ([], 3)]:
        done, lines = piped(absolute, 3 * frame, *options)
        assert (done.returncode, len(lines)) == (0, expected)
    done, lines = piped(absolute, b"")
    assert (done.returncode, lines) == (0, [])


def test_a_frame_comes_out_before_the_next_one_comes_in(program, tmp_path):
    command = [program, "run", copy_of(tmp_path, 1, 2), "--input", "x=-", "--output", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for i in range(3):
            whole = np.full((1, 2), i, np.float32).tobytes()
            for part in (whole[:3], whole[3:]):
                process.stdin.write(part)
                process.stdin.flush()
            assert json.loads(process.stdout.readline()) == {"frame": i, "outputs": {"y": [[i, i]]}}
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_an_interrupt_ends_a_wait_for_standard_input(program, tmp_path):
    command = [program, "run", copy_of(tmp_path, 1, 2), "--input", "x=-", "--output", "-", "-v"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while b"stages started" not in process.stderr.readline():
            pass
        process.stdin.write(np.zeros((1, 2), np.float32).tobytes())
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["frame"] == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


def test_a_frame_that_is_cut_off_is_an_error_behind_those_before(piped, absolute, double):
    size = 4 * 3 * 8 * 8
    done, lines = piped(absolute, bytes(2 * size + 5))
    assert (done.returncode, len(lines)) == (1, 2)
    assert told(done) == (
        f"input 'x': standard input: frame 2: is cut off: expected {size} bytes of f32[1,3,8,8], found 5"
    )
    array = npy(np.zeros((1, 3), np.float32))
    done, lines = piped(double, array + array[:-1])
    assert (done.returncode, len(lines)) == (1, 1)
    assert f"frame 1: is cut off: expected {len(array)} bytes, found {len(array) - 1}" in told(done)
    done, lines = piped(double, array + array[:3])
    assert (done.returncode, len(lines)) == (1, 1)
    assert "frame 1: is cut off" in told(done)


@pytest.mark.parametrize(
    ("begin", "kind"),
    [(b"PK\x03\x04", "a .npz or another zip"), (b"\x89PNG\r\n\x1a\n", "a PNG picture"), (b"RIFF", "a .wav")],
)
def test_a_file_of_another_kind_is_not_taken_for_plain_numbers(piped, absolute, begin, kind):
    done, lines = piped(absolute, begin + bytes(3 * 4 * 3 * 8 * 8))
    assert (done.returncode, lines) == (1, [])
    assert f"frame 0: begins as {kind}: expected plain numbers, or .npy files" in told(done)


def test_what_does_not_fit_in_standard_input_is_named(piped, double, absolute):
    done, _ = piped(double, bytes(12))
    assert done.returncode == 1
    assert "frame 0: expected .npy files" in told(done)
    assert "--shape" in told(done)
    for data, words in [
        (npy(np.zeros((1, 3))), ["expected f32[", "found f64[1,3]; give values of that type and shape"]),
        (npy(np.zeros((1, 3), np.float32)) + b"and then no array at all", ["frame 1", "not a .npy file"]),
        (npy(np.zeros((1, 3), np.float32))[:10] + b"x" * 200, ["frame 0"]),
    ]:
        done, _ = piped(double, data)
        assert done.returncode == 1
        assert told(done).startswith("input 'x': standard input: frame ")
        for word in words:
            assert word in told(done)
    done, lines = piped(double, bytes(3 * 2 * 4), "--shape", "x=1x3")
    assert (done.returncode, len(lines)) == (0, 2)


def test_standard_input_feeds_one_input_once(penstock, rows, tmp_path):
    node = helper.make_node("Add", ["a", "b"], ["y"], "add")
    model = save(tmp_path, "add", [node], [value("a", [1, 3]), value("b", [1, 3])], [value("y", [1, 3])])
    np.save(tmp_path / "one.npy", np.zeros((1, 3), np.float32))
    for arguments, words in [
        (["a=-", "b=-"], "found it for 'a' and 'b'"),
        (["a=-", "a=-"], "feeds one input once"),
        (["a=-", "a=one.npy"], "found both"),
        (["a=-", f"b={rows}"], "one value of each other input beside standard input, found 3"),
    ]:
        outcome = penstock("run", model, *(part for argument in arguments for part in ("--input", argument)))
        assert outcome.code == 1
        assert words in outcome.error


def test_a_file_serves_all_frames_of_standard_input(program, tmp_path):
    node = helper.make_node("Sub", ["x", "b"], ["y"], "difference")
    model = save(tmp_path, "difference", [node], [value("b", [1, 3]), value("x", [1, 3])], [value("y", [1, 3])])
    np.save(tmp_path / "b.npy", np.full((1, 3), 10, np.float32))
    frames = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    command = [program, "run", model, "--input", "x=-", "--input", f"b={tmp_path / 'b.npy'}", "--output", "-"]
    done = subprocess.run(command, input=frames.tobytes(), capture_output=True, check=True)
    assert values_of([json.loads(line) for line in done.stdout.splitlines()]) == (frames - 10).tolist()


def test_a_terminal_is_no_source(program, tmp_path):
    ours, terminal = pty.openpty()
    command = [program, "run", copy_of(tmp_path, 1, 2), "--input", "x=-"]
    done = subprocess.run(command, stdin=terminal, capture_output=True, check=False)
    os.close(terminal)
    os.close(ours)
    assert done.returncode == 1
    assert "standard input is a terminal" in told(done)


@pytest.mark.parametrize("command", ["bench", "verify"])
def test_other_commands_name_who_reads_standard_input(penstock, well, tmp_path, cpu, command):
    well("split", copy_of(tmp_path, 1, 3), "--devices", f"cpu:{cpu}", "-o", "copy.penstock")
    outcome = penstock(command, "copy.penstock", "--input", "x=-")
    assert outcome.code == 1
    assert "standard input ('-') is for 'penstock run'" in outcome.error


def test_a_rate_and_a_policy_hold_for_standard_input(piped, tmp_path):
    model = copy_of(tmp_path, 1, 2)
    frames = np.arange(600, dtype=np.float32).reshape(300, 1, 2)
    done, lines = piped(model, frames[:20].tobytes(), "--rate", "100", "--json")
    assert (done.returncode, len(lines)) == (0, 20)
    assert json.loads(done.stderr)["seconds"] >= 0.19
    done, lines = piped(model, frames.tobytes(), "--policy", "latest", "--json")
    report = json.loads(done.stderr)
    assert (report["ok"] + report["drops"], report["errors"]) == (300, 0)
    assert all(line["outputs"]["y"] == frames[line["frame"]].tolist() for line in lines if "outputs" in line)


def test_outputs_of_a_stream_are_folders_and_refuse_those_of_before(program, tmp_path):
    command = [program, "run", copy_of(tmp_path, 1, 2), "--input", "x=-", "--output", tmp_path / "out"]
    subprocess.run(command, input=bytes(16), capture_output=True, check=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["000000", "000001"]
    done = subprocess.run(command, input=bytes(8), capture_output=True, check=False)
    assert done.returncode == 1
    assert "of an earlier run would remain beside the frames of this one" in told(done)


READERS = {
    "gather": ([helper.make_node("Gather", ["x", "i"], ["y"], axis=1)], "int64", [0, 5]),
    "cast": (
        [helper.make_node("Cast", ["i"], ["j"], to=TensorProto.INT64), helper.make_node("Gather", ["x", "j"], ["y"])],
        "float32",
        [0, 1],
    ),
    "shifted": (
        [helper.make_node("Sub", ["i", "far"], ["j"]), helper.make_node("Gather", ["x", "j"], ["y"])],
        "int64",
        [1000, 1001],
    ),
    "blocked": (
        [
            helper.make_node("Sub", ["one", "i"], ["j"]),
            helper.make_node("Mul", ["j", "low"], ["k"]),
            helper.make_node("Add", ["x", "k"], ["y"]),
        ],
        "float32",
        [0, 1],
    ),
}
CONSTANTS = {"far": np.array(1000), "one": np.float32(1), "low": np.float32(-10000)}


@pytest.mark.parametrize("case", READERS)
def test_random_values_are_what_the_readers_take(well, tmp_path, case):
    nodes, kind, ends = READERS[case]
    used = {name for node in nodes for name in node.input}
    dtype = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    graph = save(
        tmp_path,
        case,
        [*nodes, helper.make_node("Identity", ["i"], ["seen"])],
        [value("x", [2, 6]), value("i", [6], dtype)],
        [value("y", None), value("seen", [6], dtype)],
        {name: array for name, array in CONSTANTS.items() if name in used},
    )
    well("split", graph, "-o", "p")
    plan = json.loads((tmp_path / "p/plan.json").read_text())
    assert [info.get("values") for info in plan["inputs"]] == [None, ends]
    for what in (graph, "p"):
        well("run", what, "--frames", "40", "--output", "out.npz", "--integer-limit", "100000")
        assert sorted(set(outputs(tmp_path / "out.npz", "seen").flat)) == list(range(ends[0], ends[1] + 1))
    well("verify", "p", "--frames", "4")


@pytest.mark.sweep(of=3)
def test_a_picture_of_open_size_gets_one_that_the_network_takes(well, tmp_path):
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "rows"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "w"], ["y"], "product"),
    ]
    weights = {"rows": np.array([-1, 3 * 14 * 14]), "w": random.standard_normal((3 * 14 * 14, 4), np.float32)}
    graph = save(tmp_path, "digits", nodes, [value("x", ["n", 3, "h", "w"])], [value("y", ["n", 4])], weights)
    well("split", graph, "--cut", "pool", "-o", "p")
    shape = json.loads((tmp_path / "p/plan.json").read_text())["inputs"][0]["shape"]
    assert [shape[1], *(dim["usual"] for dim in shape[2:])] == [3, 28, 28]
    assert well("verify", "p", "--frames", "4", "--json").json["verdict"] == "right"
    well("build", graph, "-o", "b", "--budget", "1s", "--backends", "onnxruntime")
    assert well("verify", "b", "--frames", "4", "--json").json["verdict"] == "right"


def test_random_texts_are_those_that_the_network_knows_and_another(well, tmp_path):
    keys = {"keys_strings": ["cat", "dog", "bird"], "values_int64s": [0, 1, 2], "default_int64": 3}
    encoder = helper.make_node("LabelEncoder", ["s"], ["i"], "encode", domain="ai.onnx.ml", **keys)
    nodes = [encoder, helper.make_node("Gather", ["table", "i"], ["y"], "look_up")]
    table = numpy_helper.from_array(np.arange(4, dtype=np.float32) * 10, "table")
    graph = helper.make_graph(nodes, "labels", [value("s", [8], TensorProto.STRING)], [value("y", [8])], [table])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "labels.onnx")
    well("split", "labels.onnx", "--cut", "encode", "-o", "p")
    well("run", "p", "--frames", "20", "--output", "out.npz")
    assert set(outputs(tmp_path / "out.npz", "y").flat) == {0, 10, 20, 30}
    assert well("verify", "p", "--frames", "4", "--json").json["verdict"] == "right"


def test_a_frame_that_cannot_be_read_is_told_with_its_stream_and_waits_for_no_batch(penstock, well, tmp_path):
    sums = save(
        tmp_path,
        "sums",
        [helper.make_node("Add", ["x", "last"], ["sum"], "add"), helper.make_node("Neg", ["sum"], ["y"], "neg")],
        [value("x", [1, 3]), value("last", [1, 3])],
        [value("y", [1, 3]), value("sum", [1, 3])],
    )
    inputs = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        for i in range(3):
            np.save(tmp_path / name / f"{i}.npy", np.full((1, 3), i, np.float32))
        inputs += ["--input", f"x={tmp_path / name}"]
    (tmp_path / "b" / "1.npy").write_bytes(b"junk")
    well("split", sums, "--state", "sum=last", "--streams", "3", "--batch", "3:600000", "-o", "p")
    outcome = penstock("run", "p", *inputs, "--streams", "3", "--output", "-")
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert [line["frame"] for line in lines] == list(range(9))
    assert [line.get("stream", 0) for line in lines] == [0, 1, 2] * 3
    assert [line["frame"] for line in lines if "error" in line] == [4]


def test_errors_name_frames_as_their_lines_do(penstock, well, tmp_path):
    """A network that refuses the frame behind one that cannot be read."""
    pick = save(
        tmp_path,
        "pick",
        [helper.make_node("Gather", ["table", "i"], ["y"], "pick")],
        [value("i", [1], TensorProto.INT64)],
        [value("y", [1])],
        {"table": np.arange(3, dtype=np.float32)},
    )
    (tmp_path / "in").mkdir()
    for number, index in enumerate([1, 0, 99]):
        np.save(tmp_path / "in" / f"{number}.npy", np.array([index]))
    (tmp_path / "in" / "1.npy").write_bytes(b"junk")
    well("split", pick, "--backend", "onnxruntime", "-o", "p")
    outcome = penstock("run", "p", "--input", f"i={tmp_path / 'in'}", "--output", "-")
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert [(line["frame"], "error" in line) for line in lines] == [(0, False), (1, True), (2, True)]
    assert "frame 2: " in lines[2]["error"]["message"]
    assert {"kind": "frame", "number": 2} in lines[2]["error"]["places"]
