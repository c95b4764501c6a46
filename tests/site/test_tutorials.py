"""Every command and file of the tutorials, in the order of the page, in a fresh folder."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import wave
from pathlib import Path

import numpy as np
import pytest
from built_program import find_program
from tutorial import Shell, agrees, blocks_of, run_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/tutorials").glob("*.md"))
EXAMPLES = ROOT / "examples/users"
OWN_FOLDERS = {"plugin": ROOT / "examples/plugin"}  # Of pages whose example stands elsewhere.


@pytest.fixture
def environment(tmp_path_factory) -> dict[str, str]:
    """What a reader has: the program and Python in the path, and an empty database of costs."""
    own = tmp_path_factory.mktemp("environment")
    path = os.pathsep.join([str(find_program().parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PATH": path, "PENSTOCK_COSTS": str(own / "costs.db"), "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Path:
    """Penstock as a C++ program finds it."""
    program, prefix = find_program(), tmp_path_factory.mktemp("prefix")
    command = ["cmake", "--install", program.parents[1], "--prefix", prefix]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"not all of Penstock is built: {done.stderr.strip().splitlines()[-1]}")
    return prefix


def compiler() -> str:
    """The one that Penstock was built with: backends are built with no other."""
    settings = (find_program().parents[1] / "CMakeCache.txt").read_text(encoding="utf-8")
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", settings, re.MULTILINE)
    assert found
    return found[1]


@pytest.mark.sweep(of=6)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_does_what_it_says(page, environment, tmp_path, request):
    if any(block.kind == "cmake" for block in blocks_of(page)):
        [config] = request.getfixturevalue("installed").rglob("PenstockConfig.cmake")
        environment["Penstock_DIR"] = str(config.parent)  # As the page says.
        environment["CXX"] = compiler()
    assert run_page(page, tmp_path, environment) > 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_its_files_are_those_of_the_example(page):
    shown = {block.title: block.text for block in blocks_of(page) if block.title}
    assert shown
    assert {
        name: (OWN_FOLDERS.get(page.stem, EXAMPLES / page.stem) / name).read_text(encoding="utf-8") for name in shown
    } == shown


def test_the_drawings_are_those_of_the_script_and_the_plots_those_of_the_numbers():
    command = [sys.executable, ROOT / "tools/drawings.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_example_has_its_page():
    assert {folder.name for folder in EXAMPLES.iterdir()} | set(OWN_FOLDERS) == {page.stem for page in PAGES}


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("12 frames in 0.5 s", "12 frames in 17.25 s", True),
        ("12 frames in 0.5 s", "11 frames in 0.5 s", False),
        ("a  1.5 ms  b", "a     20 ms b", True),
        ("a\n…\nb", "a\nx\ny\nb", True),
        ("a\n…\nb", "a\nx\ny\nc", False),
        ("to …/x.npy", "to /tmp/1/x.npy", True),
        ("a", "a\nb", False),
        ("3 stages", "2 stages", False),
    ],
)
def test_what_is_measured_may_differ_and_nothing_else(expected, printed, same):
    assert agrees(expected, printed) == same


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        ("```console\n$ echo 1\n2\n```", "page.md:2: $ echo 1\nprinted\n1"),
        ("text\n\n```console\n$ false\n```", "page.md:4: $ false\nended with 1"),
        ("```python\nprint()\n```", "page.md:2: a block of python without a title"),
    ],
)
def test_a_page_that_is_wrong_fails_with_its_line(tmp_path, planted, told):
    page = tmp_path / "page.md"
    page.write_text(planted, encoding="utf-8")
    with pytest.raises(AssertionError) as failure:
        run_page(page, tmp_path, dict(os.environ))
    assert told in str(failure.value)


def test_a_command_that_does_not_end_is_ended(tmp_path):
    shell = Shell(tmp_path, dict(os.environ))
    try:
        assert shell.run("true\n", seconds=240) == (0, "")  # It has started.
        with pytest.raises(TimeoutError, match="printed\nbegun"):
            shell.run("echo begun && sleep 600\n", seconds=2)
    finally:
        shell.close()


def test_what_a_command_sets_is_there_for_the_next_one(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('```console\n$ mkdir in && cd in\n$ export A=\\\n1\n$ echo "$A $(basename $PWD)"\n1 in\n```\n')
    assert run_page(page, tmp_path, dict(os.environ)) == 3


def save_sound(file: Path, sound: np.ndarray) -> None:
    with wave.open(str(file), "wb") as out:
        out.setparams((1, 2, 16000, 0, "NONE", ""))
        out.writeframes((sound * 32767).astype("<i2").tobytes())


def test_speech_until_the_end_of_the_file_is_told(environment, tmp_path):
    subprocess.run([sys.executable, EXAMPLES / "voice/make.py"], cwd=tmp_path, check=True, capture_output=True)
    split = ["penstock", "split", "voice.onnx", "--constant", "sr=16000", "--state", "memory_out=memory"]
    subprocess.run([*split, "-o", "voice.penstock"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    time = np.arange(16000) / 16000
    save_sound(tmp_path / "speech.wav", 0.2 * np.sin(2 * np.pi * 200 * time) * (time > 0.5))
    command = [sys.executable, EXAMPLES / "voice/listen.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"from 0\.\d to the end\n", done.stdout)
    (tmp_path / "speech.wav").write_bytes(b"")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and re.fullmatch("listen: .*speech.wav.*\n", done.stderr), done.stderr


def test_enhanced_sound_is_as_long_as_the_noisy_one(environment, tmp_path):
    subprocess.run([sys.executable, EXAMPLES / "speech/make.py"], cwd=tmp_path, check=True, capture_output=True)
    for samples in (64000, 63999, 63745):
        save_sound(tmp_path / "noisy.wav", np.full(samples, 0.1))
        command = [sys.executable, EXAMPLES / "speech/enhance.py"]
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
        with wave.open(str(tmp_path / "clean.wav"), "rb") as file:
            assert file.getnframes() == samples


@pytest.mark.parametrize(
    ("sound", "told"),
    [
        (np.zeros(16000), "clean.wav is written, and compared where noisy.wav is 3.8 s long or more; this is 1.0 s"),
        (np.zeros(64000), "the pause: -100 dB before, -100 dB after"),
        (None, "enhance: .*noisy.wav.*"),
    ],
)
def test_sound_that_cannot_be_enhanced_or_compared_is_told(environment, tmp_path, sound, told):
    subprocess.run([sys.executable, EXAMPLES / "speech/make.py"], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "noisy.wav").write_bytes(b"")
    if sound is not None:
        save_sound(tmp_path / "noisy.wav", sound)
    command = [sys.executable, EXAMPLES / "speech/enhance.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if sound is None else 0)
    assert re.search(told, done.stderr if sound is None else done.stdout)
    assert len(done.stderr.splitlines()) == (1 if sound is None else 0), done.stderr


def test_scoring_goes_on_where_ctrl_c_ended_it(environment, tmp_path):
    subprocess.run([sys.executable, EXAMPLES / "batch/make.py"], cwd=tmp_path, check=True, capture_output=True)
    split = ["penstock", "split", "find.onnx", "-o", "find.penstock"]
    subprocess.run(split, cwd=tmp_path, env=environment, check=True, capture_output=True)
    many = tmp_path / "many"
    many.mkdir()
    (many / "._0000.png").write_text("what another system keeps beside a picture")
    for index in range(400):
        (many / f"{index:04}.png").symlink_to(tmp_path / f"pictures/{index % 12:02}.png")
    command = [sys.executable, EXAMPLES / "batch/score.py", "find.penstock", many, "scores.jsonl"]
    scores = tmp_path / "scores.jsonl"
    first = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    while first.poll() is None and not (scores.exists() and scores.stat().st_size):
        time.sleep(0.01)
    first.send_signal(signal.SIGINT)
    _, told = first.communicate()
    before = scores.read_text().count("\n")
    if before < 400:  # A very slow machine may have let it come to its end.
        assert told.strip() == "interrupted; start it again to go on"
    second = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert f"400 pictures, {before} scored before" in second.stdout
    lines = [json.loads(line) for line in scores.read_text().splitlines()]
    assert [line["file"] for line in lines] == [f"{index:04}.png" for index in range(400)]
    assert all(line["place"] == lines[index % 12]["place"] for index, line in enumerate(lines))
    command[-2] = "missing"
    third = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (third.returncode, third.stderr) == (1, "score: [Errno 2] No such file or directory: 'missing'\n")


@pytest.mark.parametrize(
    ("held", "line"),
    [
        (b"notes", 1),
        (b"notes\n", 1),
        (b"{}\n", 1),
        (b"[1]\n", 1),
        (b'{"frame": 0}\n', 1),
        (b"\xff\x00\n", 1),
        (b'{"file": "a", "place": [1, 2]}\n{"file": "b', 0),
        (b'{"file": "a", "place": [1, 2]}\nnotes', 2),
        (b'{"file": "a", "place": [1, 2]}\n{"file": "b\n', 2),
        (b'{"file": "a", "place": [1, 2]}\n{"file": "\xff"}\n', 2),
    ],
)
def test_scores_are_not_written_into_a_file_that_holds_others(environment, tmp_path, held, line):
    scores = tmp_path / "scores.jsonl"
    scores.write_bytes(held)
    command = [sys.executable, EXAMPLES / "batch/score.py", "missing", "missing", "scores.jsonl"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    told = f"score: 'scores.jsonl': line {line} is no score; name a new file, or one of this program's\n"
    if line == 0:  # Its own, which was interrupted: only the folder is wrong.
        told, held = "score: [Errno 2] No such file or directory: 'missing'\n", held[: held.index(b"\n") + 1]
    assert (done.returncode, done.stderr, scores.read_bytes()) == (1, told, held)
