"""The wheel: built as a user builds it, and installed where there is no compiler."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HEADER = "include/penstock/function/penstock_function.h"

PROGRAM = """
import os, sys, numpy, penstock
assert penstock.__file__.startswith(sys.prefix), penstock.__file__
assert os.path.isfile(penstock.include_dir() + "/penstock/function/penstock_function.h")
with penstock.split(sys.argv[1], cuts=["increment"]) as pipeline:
    print(pipeline(numpy.ones((1, 4), numpy.float32))[0])
with penstock.build(sys.argv[1], budget=1, backends=["onnxruntime"], costs=sys.argv[2]) as pipeline:
    print(pipeline(numpy.ones((1, 4), numpy.float32))[0])
assert {backend["name"] for backend in penstock.backends()["backends"]} == {"onnxruntime", "openvino", "onednn"}
"""


@pytest.mark.slow
def test_the_wheel_runs_in_an_environment_without_a_compiler(model: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", tmp_path, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("penstock-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for name in (
        "py.typed",
        "_core.pyi",
        "_lib/libpenstock.so.0",
        "_lib/penstock-measure",
        HEADER,
        *(f"_lib/penstock/plugins/libpenstock_backend_{name}.so" for name in ("onnxruntime", "openvino", "onednn")),
    ):
        assert f"penstock/{name}" in names
    assert [name for name in names if name.endswith((".cc", ".h"))] == [f"penstock/{HEADER}"]

    venv.create(tmp_path / "second", with_pip=True)
    python = tmp_path / "second/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--no-deps", "--no-index", wheel], check=True, capture_output=True)
    # Its dependencies, from where they are installed already.
    (site,) = (tmp_path / "second/lib").glob("python3*/site-packages")
    engines = next(path for path in sys.path if (Path(path) / "onnxruntime").is_dir())
    (site / "engines.pth").write_text(engines + "\n")
    (tmp_path / "bin").mkdir()
    environment = {"PATH": str(tmp_path / "bin"), "HOME": os.environ.get("HOME", "/")}
    run = [python, "-c", PROGRAM, model, tmp_path / "costs.db"]
    result = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n") == ["[[9. 9. 9. 9.]]"] * 2 + [""]
