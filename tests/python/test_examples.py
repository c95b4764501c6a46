"""The demonstrations of examples/python run, on the networks of PENSTOCK_TEST_MODELS."""

import os
import re
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from penstock import io

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/python"
MODELS = Path(os.environ.get("PENSTOCK_TEST_MODELS", ""))


def needs(*names: str) -> pytest.MarkDecorator:
    missing = [name for name in names if not (MODELS / name / "model.onnx").is_file()]
    return pytest.mark.skipif(bool(missing), reason=f"PENSTOCK_TEST_MODELS has no {', '.join(missing)}")


def outcome(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def run(name: str, *arguments: str | Path) -> str:
    result = outcome(name, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def spoil(folder: Path) -> list[str]:
    """Beside 0.png and 2.png, what is no picture and what is too large. Gives how each is told."""
    (folder / "1.png").write_bytes(b"no picture")
    io.write_image(folder / "3.png", np.zeros((1, 1921, 3), np.uint8))
    return [
        r"1\.png: picture '.*1\.png': not a picture",
        r"3\.png: .*expected u8\[h<=1920,w<=1920,3\], found u8\[1,1921,3\]",
    ]


@needs("mp_face_detection_short", "mp_face_landmark", "mp_iris_landmark")
def test_faces_are_marked(tmp_path: Path) -> None:
    assert "5 faces drawn" in run("face.py", MODELS, tmp_path / "drawn")
    files = sorted((tmp_path / "drawn").iterdir())
    assert len(files) == 5
    red = []
    for file in files:
        picture = io.read_image(file).astype(int)
        marked = (picture[:, :, 0] > 240) & (picture[:, :, 1:].max(axis=2) < 40)
        assert marked.any(), "no iris"
        rows, columns = np.nonzero(marked)
        assert abs(rows.mean() - 217) < 25  # Where the eyes were drawn.
        red.append(columns.mean())
    assert np.all(np.diff(red) > 10), "the faces were drawn from left to right"


@needs("mp_face_detection_short", "mp_face_landmark", "mp_iris_landmark")
def test_pictures_without_a_face_are_dropped(tmp_path: Path) -> None:
    io.write_image(tmp_path / "grey.png", np.full((200, 300, 3), 90, np.uint8))
    assert "0 faces drawn" in (out := run("face.py", MODELS, tmp_path / "drawn", tmp_path / "grey.png"))
    assert "1 pictures without" in out


@needs("mp_face_detection_short", "mp_face_landmark", "mp_iris_landmark")
def test_what_is_wrong_with_a_picture_is_told_and_the_next_one_follows(tmp_path: Path) -> None:
    for number in (0, 2, 4):
        io.write_image(tmp_path / f"{number}.png", np.full((200, 300, 3), 90, np.uint8))
    told = spoil(tmp_path)
    result = outcome("face.py", MODELS, tmp_path / "drawn", tmp_path)
    assert (result.returncode, "0 faces drawn" in result.stdout, "3 pictures without" in result.stdout) == (
        1,
        True,
        True,
    )
    assert [bool(re.search(*pair)) for pair in zip(told, result.stderr.splitlines(), strict=True)] == [True, True]


@needs("mp_face_detection_short", "mp_face_landmark", "mp_iris_landmark")
def test_a_face_that_cannot_be_written_is_not_the_pictures_fault(tmp_path: Path) -> None:
    (tmp_path / "000001.png").mkdir()  # Where the second is to go.
    result = outcome("face.py", MODELS, tmp_path)
    assert (result.returncode, result.stdout) == (1, ""), result.stderr
    assert f"face: picture '{tmp_path / '000001.png'}': cannot be written: " in result.stderr


@needs("dtln_1", "dtln_2")
def test_sound_is_enhanced_as_by_a_loop(tmp_path: Path) -> None:
    import onnxruntime

    random = np.random.default_rng(0)
    time = np.arange(16000) / 16000
    noisy = 0.3 * np.sin(2 * np.pi * 180 * time) * (np.sin(2 * np.pi * 3 * time) > 0)
    noisy += 0.05 * random.standard_normal(len(time))
    with wave.open(str(tmp_path / "noisy.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes((noisy * 32767).astype("<i2").tobytes())
    assert "s written to" in run("enhance.py", MODELS, tmp_path / "noisy.wav", tmp_path / "clean.wav")
    with wave.open(str(tmp_path / "clean.wav")) as file:
        clean = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32767

    first, second = (onnxruntime.InferenceSession(MODELS / name / "model.onnx") for name in ("dtln_1", "dtln_2"))
    states = [np.zeros((1, 2, 128, 2), np.float32)] * 2
    total, expected = np.zeros(512, np.float32), []
    for block in io.wav(tmp_path / "noisy.wav", 512, 128):
        bins = np.fft.rfft(block.reshape(-1))
        magnitude = np.abs(bins).astype(np.float32)[None, None]
        mask, states[0] = first.run(None, {"input_2": magnitude, "input_3": states[0]})
        part = np.fft.irfft((magnitude * mask)[0, 0] * np.exp(1j * np.angle(bins))).astype(np.float32)
        block, states[1] = second.run(None, {"input_4": part[None, None], "input_5": states[1]})
        total = np.concatenate([total[128:], np.zeros(128, np.float32)]) + block[0, 0]
        expected.append(total[:128])
    np.testing.assert_allclose(clean, np.concatenate(expected), atol=1e-3)
    assert np.abs(clean).max() > 0.05


@needs("dtln_1", "dtln_2")
@pytest.mark.parametrize(
    ("parameters", "samples", "told"),
    [
        ((2, 2, 44100), 4410, "expected 16000 samples a second, found 44100; convert it, such as by 'ffmpeg -i "),
        ((1, 2, 16000), 0, "expected samples, found none"),
    ],
)
def test_sound_that_cannot_be_enhanced_is_named(
    tmp_path: Path, parameters: tuple[int, int, int], samples: int, told: str
) -> None:
    noisy = tmp_path / "noisy.wav"
    with wave.open(str(noisy), "wb") as file:
        file.setparams((*parameters, 0, "NONE", ""))
        file.writeframes(bytes(samples * parameters[0] * parameters[1]))
    command = [sys.executable, str(EXAMPLES / "enhance.py"), str(MODELS), str(noisy), str(tmp_path / "clean.wav")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"enhance: sound '{noisy}': {told}"), result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("classify.py", "{}", "picture.png"), "classify: node 'network': file '"),
        (("classify.py", "{}", "{}"), "folder '{}': expected pictures (.png, .jpg, .jpeg, .bmp), found none"),
        (("face.py", "{}", "{}/drawn", "picture.png"), "face: node 'detect': file '"),
        (("enhance.py", "{}", "{}/none.wav", "clean.wav"), "enhance: sound '{}/none.wav': no such file"),
    ],
)
def test_what_is_wrong_with_an_argument_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    result = outcome(*(argument.format(tmp_path) for argument in arguments))
    assert result.returncode == 1
    assert result.stderr.startswith(told.format(tmp_path)), result.stderr
    assert len(result.stderr.splitlines()) == 1


@needs("mnist_8")
def test_digits_are_told(tmp_path: Path) -> None:
    one = np.full((140, 140, 3), 255, np.uint8)
    one[25:115, 64:76] = 0
    y, x = np.mgrid[:140, :140] - 70
    ring = np.abs(np.hypot(x / 0.75, y) - 42) < 7
    zero = np.where(ring[:, :, None], 0, np.full((140, 140, 3), 255)).astype(np.uint8)
    for number, picture in enumerate([one, zero, one]):
        io.write_image(tmp_path / f"{number}.png", picture)
    lines = run("classify.py", MODELS, tmp_path).splitlines()
    assert [line.split()[:2] for line in lines] == [["0.png:", "1"], ["1.png:", "0"], ["2.png:", "1"]]
    told = spoil(tmp_path)
    result = outcome("classify.py", MODELS, tmp_path)
    assert (result.returncode, result.stdout.splitlines()) == (1, [lines[0], lines[2]])
    assert [bool(re.search(*pair)) for pair in zip(told, result.stderr.splitlines(), strict=True)] == [True, True]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.py")), ids=lambda file: file.stem)
def test_an_example_is_one_screen(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 85
