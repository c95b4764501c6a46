"""The package is typed: what users write is checked by mypy --strict."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt
import penstock
from penstock import io

with penstock.split("model.onnx", cuts=["a", 3], shapes={"x": (1, None, "1..3")}, policy="latest") as pipeline:
    arrays: list[npt.NDArray[Any]] = pipeline.run(None, {"x": np.zeros(3)})
    for frame in pipeline.stream(io.images("photos"), lambda image: io.prepare(image, pipeline.get_inputs()[0])):
        number: int = frame.number
        scores: npt.NDArray[Any] = frame["scores"]
    future: Future[penstock.Frame] = pipeline.submit(np.zeros(3))
    frames: int = pipeline.stats()["stages"][0]["frames"]
    result: penstock.Frame | None = pipeline.pop(timeout=None)
penstock.split("model.onnx", policy="sometimes")  # type: ignore[arg-type]
pipeline.run("scores")  # type: ignore[call-arg]
"""


@pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed")
def test_a_users_program_is_checked(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(tmp_path / "program.py")]
    checked = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT / "python"), "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
