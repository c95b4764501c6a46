"""The model generator: what it writes is valid, the same twice, and means something when it runs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools/make_models.py"
SMALL = ["bert_tiny", "diamond", "landmarks", "lstm", "mobilenetv2", "nasnet", "resnet_tiny", "yolo_like"]
TINY = ["bert_tiny", "diamond", "resnet_tiny"]


def run_tool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=False)


def make(folder: Path, *arguments: str) -> Path:
    result = run_tool("--out", folder, *arguments)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("models"), *SMALL)


def infer(path: Path, seed: int = 1) -> list[np.ndarray]:
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    random, feeds = np.random.default_rng(seed), {}
    for value in session.get_inputs():
        if value.type == "tensor(float)":
            feeds[value.name] = random.standard_normal(value.shape, np.float32)
        else:  # attention_mask and token_type_ids are 0 or 1
            feeds[value.name] = random.integers(0, 1000 if value.name == "input_ids" else 2, value.shape)
    return session.run(None, feeds)


@pytest.mark.parametrize("name", SMALL)
def test_is_valid_with_unique_names(models: Path, name: str) -> None:
    path = models / f"{name}.onnx"
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path)
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)
    names = [node.name for node in model.graph.node]
    assert all(names)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", SMALL)
def test_outputs_are_of_order_one_and_depend_on_the_input(models: Path, name: str) -> None:
    for first, second in zip(infer(models / f"{name}.onnx", 1), infer(models / f"{name}.onnx", 2), strict=True):
        assert np.isfinite(first).all()
        assert 0.1 < first.std() < 10
        assert np.abs(first - second).max() > 0.01 * first.std()


@pytest.mark.parametrize("external", [[], ["--external"]])
def test_same_seed_same_bytes(tmp_path: Path, external: list[str]) -> None:
    a, b = (make(tmp_path / name, *external, *TINY) for name in "ab")
    files = sorted(path.name for path in a.iterdir())
    assert len(files) == (2 if external else 1) * len(TINY)
    assert all((a / name).read_bytes() == (b / name).read_bytes() for name in files)


def test_other_seed_other_weights(models: Path, tmp_path: Path) -> None:
    make(tmp_path, "--seed", "1", "diamond")
    assert (tmp_path / "diamond.onnx").read_bytes() != (models / "diamond.onnx").read_bytes()


@pytest.mark.parametrize("name", TINY)
def test_external_weights_are_the_inline_ones(models: Path, tmp_path: Path, name: str) -> None:
    make(tmp_path, "--external", name)
    inline, external = onnx.load(models / f"{name}.onnx"), onnx.load(tmp_path / f"{name}.onnx")
    for a, b in zip(inline.graph.initializer, external.graph.initializer, strict=True):
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(a), onnx.numpy_helper.to_array(b), a.name)
    for a, b in zip(infer(models / f"{name}.onnx"), infer(tmp_path / f"{name}.onnx"), strict=True):
        np.testing.assert_array_equal(a, b)


def test_diamond_has_an_early_output(models: Path) -> None:
    graph = onnx.load(models / "diamond.onnx").graph
    assert [value.name for value in graph.output] == ["early", "late"]
    produced = [name for node in graph.node for name in node.output]
    assert produced.index("early") < len(produced) / 2
    assert produced[-1] == "late"


def test_lists_its_models() -> None:
    assert set(SMALL) < set(run_tool("--list").stdout.split())


def test_unknown_name_is_an_error(tmp_path: Path) -> None:
    result = run_tool("--out", tmp_path, "resnet51")
    assert result.returncode == 2
    assert "no such model: resnet51" in result.stderr
