"""What a build keeps on disk: its weights once, whatever it makes of them."""

import fnmatch
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import save, value
from onnx import helper

WIDTH = 256
LAYERS = 4


def save_layers(folder: Path) -> Path:
    random = np.random.default_rng(7)
    nodes, weights, before = [], {}, "x"
    for i in range(LAYERS):
        weights[f"w{i}"] = random.standard_normal((WIDTH, WIDTH)).astype(np.float32) / WIDTH
        nodes.append(helper.make_node("MatMul", [before, f"w{i}"], [f"m{i}"], f"matmul{i}"))
        nodes.append(helper.make_node("Tanh", [f"m{i}"], [f"t{i}"], f"tanh{i}"))
        before = f"t{i}"
    return save(folder, "layers", nodes, [value("x", [1, WIDTH])], [value(before, [1, WIDTH])], weights)


def inodes_of(folder: Path, pattern: str) -> dict[int, int]:
    """Bytes by inode."""
    found = {}
    for file in files_of(folder, pattern):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue  # Gone meanwhile.
        found[status.st_ino] = status.st_size
    return found


def files_of(folder: Path, pattern: str) -> list[Path]:
    """Path.rglob() of folders that may go meanwhile."""
    return [Path(at) / name for at, _, names in os.walk(folder) for name in fnmatch.filter(names, pattern)]


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setenv("PENSTOCK_COSTS", str(tmp_path / "costs.db"))
    return folder


@pytest.mark.sweep(of=3)
def test_parts_and_plans_have_links_of_one_file_of_weights(program, tmp_path, temporary):
    model = save_layers(tmp_path)
    package = tmp_path / "built.penstock"
    kept = {file: file.stat().st_nlink for file in tmp_path.glob("*.onnx")}
    seen: dict[int, int] = {}
    links = 0
    command = [program, "build", model, "-o", package, "--budget", "8s", "--backends", "onnxruntime"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            seen |= inodes_of(temporary, "*weights.data")
            links = max(links, len(files_of(temporary, "*weights.data")))
            assert inodes_of(temporary, "*.onnx.data") == {}
            os.sched_yield()
        assert process.returncode == 0, process.stderr.read()
    assert len(seen) == 1, "one store for all that was made of the network"
    assert set(seen.values()) <= {4 * WIDTH * WIDTH * LAYERS}
    assert links > 1
    # The package is whole by itself, and nothing is linked to the user's file.
    assert {file: file.stat().st_nlink for file in kept} == kept
    data = list(package.rglob("*.data"))
    assert data
    assert all(file.stat().st_nlink == 1 and file.name != "weights.data" for file in data)
    assert list(temporary.iterdir()) == []
