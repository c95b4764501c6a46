"""Frame: what it is to pydoc, and as a mapping."""

import ast
import inspect
import pydoc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from line import frame

import penstock

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def result(pipeline: penstock.Pipeline) -> Iterator[penstock.Frame]:
    pipeline.push(frame(3))
    found = pipeline.pop()
    assert found is not None
    yield found


def test_help_tells_what_a_frame_is() -> None:
    shown = pydoc.render_doc(penstock.Frame, renderer=pydoc.plaintext)
    assert "a mapping of its outputs by name" in shown
    public = [name for name in dir(penstock.Frame) if not name.startswith("_")]
    assert {"number", "tag", "outputs", "take", "get", "items"} <= set(public)
    assert [name for name in public if not inspect.getdoc(getattr(penstock.Frame, name))] == []


def test_its_texts_are_those_of_the_stub() -> None:

    stub = ast.parse((ROOT / "python/penstock/_core.pyi").read_text())
    (described,) = [node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == "Frame"]
    assert inspect.getdoc(penstock.Frame) == ast.get_docstring(described)
    methods = [node for node in described.body if isinstance(node, ast.FunctionDef)]
    texts = {node.name: text for node in methods if (text := ast.get_docstring(node))}
    assert set(texts) >= {name for name in dir(penstock.Frame) if not name.startswith("_")}
    for name, text in texts.items():
        told = inspect.getdoc(getattr(penstock.Frame, name)) or ""
        assert text in (told, told.partition("\n\n")[2]), name  # Of a method behind its signature.


def test_what_is_no_name_is_none_of_its_keys(result: penstock.Frame) -> None:
    array = frame(1)
    for key in (None, 3, 0, array, [1], np.int64(0)):
        assert key not in result
        assert result.get(key) is None  # type: ignore[call-overload]
        assert result.get(key, 7) == 7  # type: ignore[call-overload]
    for key in (None, array, [1]):
        with pytest.raises(KeyError, match="the outputs are "):
            result[key]  # type: ignore[index]


def test_positions_may_be_any_whole_number(result: penstock.Frame) -> None:
    assert result[np.int64(0)] is result[0]
    assert result[np.int8(-1)] is result.outputs[-1]
    for beyond in (2**70, -(2**70), 2**63, 99, -99):
        with pytest.raises(IndexError, match=f"found index {beyond}$"):
            result[beyond]
