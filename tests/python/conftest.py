"""What the tests of the Python package share. tests/conftest.py says where the package is."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

collect_ignore_glob: list[str] = []
try:
    import penstock
except ModuleNotFoundError:
    collect_ignore_glob = ["test_*.py"]  # Nothing is built: as the other tests skip then.


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = 2 * x + 1 over f32[1,4], z = y * y; two nodes before z, so that it can be cut."""
    from line import write_model

    return write_model(tmp_path_factory.mktemp("model") / "line.onnx")


@pytest.fixture
def pipeline(model: Path) -> Iterator["penstock.Pipeline"]:
    with penstock.split(model, cuts=["increment"]) as running:
        yield running


@pytest.fixture(scope="session")
def run_script(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a program of its own in a process that must end by itself; gives what it printed."""
    import subprocess

    def run(text: str, *arguments: str | Path, seconds: float = 300, code: int = 0) -> str:
        command = [sys.executable, "-X", "faulthandler", "-c", text, *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        assert result.returncode == code, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result.stdout + (result.stderr if code else "")

    return run
