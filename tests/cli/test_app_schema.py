"""docs/app.schema.json and the program agree on what an application looks like."""

import copy
import json
import re
from typing import Any

import jsonschema
import pytest
import yaml
from conftest import ROOT

SCHEMA = json.loads((ROOT / "docs/app.schema.json").read_text())
VALID = jsonschema.Draft202012Validator(SCHEMA)


def documents() -> list[tuple[str, str]]:
    """Every application of the tree: files, and the snippets of pages and tests."""
    folders = [ROOT / name for name in ("docs", "examples", "tests", "bench", "src")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()] + list(ROOT.glob("*.md"))
    found = []
    for file in sorted(files):
        place = str(file.relative_to(ROOT))
        if file.suffix in (".yaml", ".yml"):
            found.append((place, file.read_text()))
        elif file.suffix == ".md":
            for block in re.findall(r"^```(?:yaml|python)\n(.*?)^```$", file.read_text(), re.MULTILINE | re.DOTALL):
                quoted = re.findall(r'"""(.*?)"""', block, re.DOTALL)
                found += [(place, text) for text in [*quoted, block] if text.lstrip().startswith("penstock_app:")]
    return found


@pytest.mark.parametrize(("place", "text"), documents())
def test_the_documents_of_the_tree_are_valid(place: str, text: str) -> None:
    assert [error.message for error in VALID.iter_errors(yaml.safe_load(text))] == []


def test_the_pages_have_documents() -> None:
    assert [place for place, _ in documents()].count("docs/composition.md") >= 2


@pytest.mark.parametrize("name", ["f32[]", "f32", "u8[h<=1080,w<=1920,3]", "i64[?, n]", "bool[?<=7]", "bf16[ 1 ]"])
def test_types_are_valid(name: str) -> None:
    assert VALID.is_valid(spoilt("inputs.x", name))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


WHOLE = {
    "penstock_app": 1,
    "name": "whole",
    "inputs": {"x": "f32[4]", "y": None, "z": "any", "i": "u8[h<=1080,w<=1920,3]"},
    "nodes": {
        "net": {
            "network": "net.onnx",
            "inputs": {"x": "x"},
            "each": ["x"],
            "max_run_ms": 0.5,
            "max_left_behind": 0,
            "cuts": [12, "relu"],
            "replicas": 2,
            "devices": "cpu:0",
            "backend": "onnxruntime",
            "options": {"a": 1, "b": True, "c": "d", "e": 0.5},
            "shapes": {"x": "1x1..512"},
            "constants": {"sr": 16000, "ids": [[1, 2], [3, 4]], "mask": "mask.npy", "on": True},
            "parameters": ["w"],
            "as_is": True,
            "custom_ops": ["ops.so"],
            "unpinned": False,
            "batch": {"frames": 8, "wait_ms": 2.5},
            "lanes": 4,
        },
        "f": {
            "function": "./f.so",
            "name": "f",
            "inputs": {"a": "net.y"},
            "each": ["a"],
            "max_run_ms": 100,
            "max_left_behind": 1024,
            "replicas": 1024,
            "devices": "cpu:0",
            "options": {"gain": 0.5},
        },
        "fit": {
            "ready": "letterbox",
            "inputs": {"image": "i"},
            "each": ["image"],
            "max_run_ms": 100,
            "max_left_behind": 1,
            "replicas": 2,
            "devices": "cpu:0",
            "options": {"size": [640, 480], "fill": 0, "enlarge": False, "at": "corner"},
        },
    },
    "states": [{"from": "f.s", "to": "net.s", "initial": "s.npy"}],
    "outputs": {"out": "f.y"},
    "streams": {"most": 8, "evict": True},
    "max_age_ms": 20,
    "on_error": "stop",
}

# Where a value stands, and what of another form may stand there instead.
NO_TEXT: list[Any] = [[], {}, ["a"], {"a": "b"}]
NO_LIST: list[Any] = [{}, "a", 1, None]
NO_MAPPING: list[Any] = [[], "a", 1, None]
NO_NUMBER: list[Any] = [0, -1, "many", "", 1e13, None, [], {}]
NO_COUNT: list[Any] = [0, -1, 4097, 1.5, "many", "", None, [], {}]
NO_LIMIT: list[Any] = [-1, 1025, 1.5, "many", "", None, [], {}]
NO_BATCH: list[Any] = [
    "8:",
    "8:0",
    "0:2",
    "1025:2",
    "8:x",
    "s=8",
    "s=8:2",
    "Auto",
    "auto:",
    "auto:1",
    "auto:1025",
    "auto:x",
    "auto:-2",
    "s=auto",
]
NO_FLAG: list[Any] = ["maybe", 3, None, [], {}]
SPOILT: dict[str, list[Any]] = {
    "": [[], "a", None],
    "penstock_app": [2, 0, None, "one", [1], {}],
    "name": NO_TEXT,
    "inputs": NO_MAPPING,
    "inputs.x": [*NO_TEXT, "float[4]", "f32[4", "f32[-1]", "f32[n<=]", "f32[1,]", "f32 4", ""],
    "nodes": [*NO_MAPPING, {}],
    "nodes.net": [*NO_MAPPING, {}],
    "nodes.net.network": [*NO_TEXT, ""],
    "nodes.net.inputs": NO_MAPPING,
    "nodes.net.inputs.x": [*NO_TEXT, None],
    "nodes.net.each": NO_LIST,
    "nodes.net.each.0": [*NO_TEXT, None],
    "nodes.net.max_run_ms": NO_NUMBER,
    "nodes.net.max_left_behind": NO_LIMIT,
    "nodes.net.lanes": [*NO_LIMIT, {"stage0": "many"}, {"stage0": 1025}],
    "nodes.net.cuts": NO_LIST,
    "nodes.net.cuts.0": [*NO_TEXT, None],
    "nodes.net.replicas": NO_COUNT,
    "nodes.net.devices": [*NO_TEXT, None, "", "gpu", "cpu:", "cpu:0;cpu:1"],
    "nodes.net.backend": [*NO_TEXT, None],
    "nodes.net.options": NO_MAPPING,
    "nodes.net.options.a": [*NO_TEXT, None],
    "nodes.net.shapes": NO_MAPPING,
    "nodes.net.shapes.x": [*NO_TEXT, None, "x", "1xx2", "1,2", "axb"],
    "nodes.net.constants": NO_MAPPING,
    "nodes.net.constants.sr": [{}, {"a": "b"}, None, [None]],
    "nodes.net.parameters": NO_LIST,
    "nodes.net.parameters.0": [*NO_TEXT, None],
    "nodes.net.as_is": NO_FLAG,
    "nodes.net.custom_ops": NO_LIST,
    "nodes.net.custom_ops.0": [*NO_TEXT, None],
    "nodes.net.unpinned": NO_FLAG,
    "nodes.net.batch": [
        *NO_COUNT,
        *NO_BATCH,
        {"wait_ms": 1},
        {"frames": 8, "wait": 1},
        {"stage0": 0},
        {"stage0": {"wait_ms": 1}},
    ],
    "nodes.net.batch.frames": NO_COUNT,
    "nodes.net.batch.wait_ms": NO_NUMBER,
    "nodes.f": [*NO_MAPPING, {}, {"network": "net.onnx", "function": "./f.so"}],
    "nodes.f.function": [*NO_TEXT, ""],
    "nodes.fit": [*NO_MAPPING, {}, {"ready": "letterbox", "function": "./f.so"}],
    "nodes.fit.ready": [*NO_TEXT, ""],
    "nodes.fit.options": NO_MAPPING,
    "nodes.fit.options.size": [{}, {"a": "b"}, None, [], [[1, 2]], [None]],
    "nodes.fit.replicas": NO_COUNT,
    "nodes.f.name": [*NO_TEXT, None],
    "nodes.f.inputs.a": [*NO_TEXT, None],
    "nodes.f.max_run_ms": NO_NUMBER,
    "nodes.f.max_left_behind": NO_LIMIT,
    "nodes.f.replicas": NO_COUNT,
    "nodes.f.options": NO_MAPPING,
    "states": NO_LIST,
    "states.0": [*NO_MAPPING, {}, {"from": "a.b"}, {"to": "a.b"}],
    "states.0.from": [*NO_TEXT, None],
    "states.0.to": [*NO_TEXT, None],
    "states.0.initial": [*NO_TEXT, None],
    "outputs": [*NO_MAPPING, {}],
    "outputs.out": [*NO_TEXT, None],
    "streams": NO_MAPPING,
    "streams.most": [0, -1, 2**31, 1.5, "many", "", None, [], {}],
    "streams.evict": NO_FLAG,
    "max_age_ms": NO_NUMBER,
    "on_error": ["maybe", None, [], {}],
}


@pytest.fixture
def refusal(penstock, tmp_path):
    """What the program says of a document's form; empty where it read on: the files there are no model, no library."""
    for name in ("net.onnx", "f.so", "ops.so", "s.npy", "mask.npy"):
        (tmp_path / name).touch()

    def refusal(document: Any) -> str:
        file = tmp_path / "app.yaml"
        file.write_text(json.dumps(document, indent=1))  # JSON is YAML.
        said = penstock("run", file).error
        read_on = "node 'net': file '" in said or "node 'net': custom-operator library '" in said
        return "" if read_on else said

    return refusal


def spoilt(path: str, value: Any) -> Any:
    document = copy.deepcopy(WHOLE)
    if not path:
        return value
    place: Any = document
    *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in above:
        place = place[part]
    place[last] = value
    return document


def test_what_is_right_is_right_to_both(refusal) -> None:
    assert [error.message for error in VALID.iter_errors(WHOLE)] == []
    assert refusal(WHOLE) == ""


@pytest.mark.parametrize(
    "batch",
    [
        1,
        1024,
        "auto",
        "auto:2",
        "auto:99",
        "auto:999",
        "auto:1009",
        "auto:1024",
        "8:2",
        "1024:0.001",
        "1:999.5",
        {"stage0": 2, "stage1": {"frames": 4}},
    ],
)
def test_batches_are_right_to_both(refusal, batch: int | str | dict[str, object]) -> None:
    document = spoilt("nodes.net.batch", batch)
    assert VALID.is_valid(document)
    assert refusal(document) == ""


@pytest.mark.parametrize("path", SPOILT, ids=lambda path: path or "whole")
def test_a_wrong_form_is_refused_by_both(refusal, path: str) -> None:
    for value in SPOILT[path]:
        document = spoilt(path, value)
        said = refusal(document)
        assert re.search(r"app\.yaml(:\d+)?: ", said), (value, said)
        assert not VALID.is_valid(document), (value, said)


@pytest.mark.parametrize("path", ["", "nodes.net", "nodes.f", "states.0"])
def test_an_unknown_or_missing_field_is_refused_by_both(refusal, path: str) -> None:
    place: Any = WHOLE
    for part in filter(None, path.split(".")):
        place = place[int(part) if part.isdigit() else part]
    required = {"": ("penstock_app", "nodes", "outputs"), "nodes.net": ("network",), "nodes.f": ("function",)}
    changed = [place | {"no such field": 1}]
    changed += [{k: v for k, v in place.items() if k != name} for name in required.get(path, ("from", "to"))]
    for value in changed:
        document = spoilt(path, value)
        said = refusal(document)
        assert re.search(r"app\.yaml:\d+: .*(unknown field|missing|expected)", said), (value, said)
        assert not VALID.is_valid(document), (value, said)
