"""Every Python snippet of the documents runs, in the order of the page."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import penstock
from penstock import io

ROOT = Path(__file__).resolve().parents[2]
OTHER_PAGES = ["docs/c.md", "docs/python_api.md", "docs/composition.md", "docs/coming_from.md"]
OTHER_PAGES += ["docs/ready_functions.md", "README.md"]
PAGES = ["docs/python.md", *(pytest.param(page, marks=pytest.mark.sweep(of=3)) for page in OTHER_PAGES)]


def snippets(page: str) -> list[tuple[int, str]]:
    """Line number and text of each block."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        (text[: found.start(1)].count("\n"), found[1])
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def write_classifier(file: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    random = np.random.default_rng(0)
    weights = {"kernel": random.standard_normal((4, 3, 3, 3)), "dense": random.standard_normal((4, 10))}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["image", "kernel"], ["features"], name="conv"),
            helper.make_node("Relu", ["features"], ["active"], name="relu"),
            helper.make_node("GlobalAveragePool", ["active"], ["pooled"], name="pool"),
            helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"),
            helper.make_node("MatMul", ["flat", "dense"], ["scores"], name="classify"),
        ],
        "classifier",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), file)


@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_classifier(tmp_path / "model.onnx")
    (tmp_path / "photos").mkdir()
    for name in ("a.png", "b.png"):
        io.write_image(tmp_path / "photos" / name, np.full((48, 64, 3), 90, np.uint8))
    blocks = snippets(page)
    assert blocks, f"{page} has no Python"
    names: dict[str, object] = {"__name__": "__main__"}
    for line, text in blocks:
        exec(compile("\n" * line + text, ROOT / page, "exec"), names)


def test_the_items_of_a_page_share_calls(tmp_path: Path) -> None:
    page = (ROOT / "docs/functions.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (text,) = (block for block in blocks if "each" in block)
    write_classifier(tmp_path / "model.onnx")
    (tmp_path / "app.yaml").write_text(text, encoding="utf-8")
    crops = np.random.default_rng(0).random((7, 1, 3, 32, 32), np.float32)
    with (
        penstock.App.read(tmp_path / "app.yaml").start() as together,
        penstock.split(tmp_path / "model.onnx", replicas=1) as alone,
    ):
        expected = np.stack([alone(crop)[0] for crop in crops])
        np.testing.assert_allclose(together(crops)[0], expected, rtol=1e-4)
        (stage,) = together.stats()["stages"]
    assert stage["surplus"] == 1  # Four items, and three in the model of four.


def test_the_reference_is_what_the_docstrings_say() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/api_docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_reference_of_ready_functions_is_what_they_declare() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/ready_docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
