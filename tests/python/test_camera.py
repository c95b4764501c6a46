"""A camera on the network at 30 pictures a second, through OpenCV's FFmpeg: alone, and in the example."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import penstock
from penstock import io

pytest.importorskip("cv2", reason="OpenCV is not here; pip install opencv-python-headless")

from rtsp_camera import Camera  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEIGHT = 320, 240
Picture = Callable[[int], npt.NDArray[np.uint8]]


@pytest.fixture
def start_camera() -> Iterator[Callable[[Picture, int], str]]:
    """start_camera(picture, most) -> the address of a camera that sends that many."""
    cameras = []

    def start_camera(picture: Picture, most: int) -> str:
        cameras.append(Camera(picture, 30, most))
        return cameras[-1].address

    yield start_camera
    for camera in cameras:
        camera.close()


def bar(number: int) -> npt.NDArray[np.uint8]:
    """As much of it is red as its number says."""
    picture = np.full((HEIGHT, WIDTH, 3), 40, np.uint8)
    picture[:, : 4 * number, 0] = 220
    return picture


def ball(number: int) -> npt.NDArray[np.uint8]:
    """A red ball at 100 + number, 80 + number, 20 pixels in radius."""
    rows, columns = np.mgrid[:HEIGHT, :WIDTH]
    inside = np.hypot(columns - 100 - number, rows - 80 - number) <= 20
    return np.where(inside[:, :, None], (220, 40, 40), (110, 110, 110)).astype(np.uint8)


def test_the_newest_pictures_come_until_the_camera_stops(start_camera: Callable[[Picture, int], str]) -> None:
    address = start_camera(bar, 60)
    seen = []
    with pytest.raises(penstock.Unavailable, match=f"^camera '{address}': gives no more pictures; is it connected"):
        for picture in io.camera(address):
            assert picture.shape == (HEIGHT, WIDTH, 3) and picture.dtype == np.uint8
            seen.append(round(float((picture[HEIGHT // 2, :, 0] > 130).sum()) / 4))
    assert seen == sorted(set(seen)) and 1 <= len(seen) <= 60
    assert seen[-1] >= 58  # FFmpeg may keep the last one, whose end it has not seen.


@pytest.fixture
def example(tmp_path: Path) -> dict[str, str]:
    """A folder with the example and its networks; the environment in which it runs."""
    for name in ("make.py", "follow.py"):
        shutil.copy(ROOT / "examples/users/camera" / name, tmp_path)
    subprocess.run([sys.executable, "make.py"], cwd=tmp_path, check=True, capture_output=True)
    path = os.pathsep.join(filter(None, [os.fspath(Path(penstock.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def test_the_example_ends_quietly_where_nobody_reads_on(tmp_path: Path, example: dict[str, str]) -> None:
    command = f"{sys.executable} follow.py clip.avi | head -n 1"
    outcome = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, env=example)
    assert len(outcome.stdout.splitlines()) == 1
    assert outcome.stderr == ""


def test_the_example_says_what_is_wrong_with_a_file(tmp_path: Path, example: dict[str, str]) -> None:
    (tmp_path / "notes.avi").write_text("no video")
    for source, told in [
        ("clpi.avi", "video 'clpi.avi': no such file"),
        (".", "video '.': expected a file, found a folder"),
        ("notes.avi", "video 'notes.avi': not a video that OpenCV can read"),
    ]:
        command = [sys.executable, "follow.py", source]
        outcome = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=example)
        assert outcome.returncode == 1
        assert outcome.stderr.splitlines()[-1] == f"follow: {told}"


def test_the_example_says_that_its_lines_cannot_be_written(tmp_path: Path, example: dict[str, str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "follow.py", "clip.avi"]
        outcome = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, env=example)
    assert (outcome.returncode, outcome.stderr) == (1, "follow: [Errno 28] No space left on device\n")


@pytest.mark.sweep(of=3)
def test_the_example_follows_a_ball_of_a_camera(
    tmp_path: Path, start_camera: Callable[[Picture, int], str], example: dict[str, str]
) -> None:
    address = start_camera(ball, 90)
    follow = [sys.executable, "follow.py"]
    outcome = subprocess.run([*follow, address], cwd=tmp_path, capture_output=True, text=True, env=example)
    unasked = subprocess.run(follow, cwd=tmp_path, capture_output=True, text=True, env=example)
    assert (unasked.returncode, "python follow.py SOURCE" in unasked.stderr) == (1, True)
    assert outcome.stderr.splitlines()[-1] == f"follow: camera '{address}': gives no more pictures; is it connected?"
    boxes = [list(map(int, line.split()[1:])) for line in outcome.stdout.splitlines()]
    for left, top, right, bottom in boxes:  # 40 pixels wide, on the diagonal on which the ball moves.
        assert abs(right - left - 40) <= 8 and abs(bottom - top - 40) <= 8
        assert abs((left + right) / 2 - (top + bottom) / 2 - 20) <= 8
