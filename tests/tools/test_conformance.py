"""tools/conformance.py: the tables of what backends make of ONNX's own cases."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import conformance  # noqa: E402

LINES = [
    "onnxruntime\tnode/test_relu\twhole\tpassed\t",
    "onnxruntime\tnode/test_loop11\twhole\tpassed\t",
    "onnxruntime\tnode/test_a\twhole\trefused\tnode/a: model 'a': Could not find an implementation for Cast(25) n",
    "onnxruntime\tnode/test_b\twhole\trefused\tnode/b: model 'b': Could not find an implementation for Pow(15) n",
    "onednn\tnode/test_relu\twhole\tunclaimed\tnode 'r' (Relu): the onednn backend does not run operator Relu",
    "onednn\tnode/test_c\tcut\tpassed\t",
    "openvino\tnode/test_relu\twhole\texcused\tas test_c",
]


def lines_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_outcomes_are_counted_by_backend_and_form():
    rows = lines_of("\n".join(conformance.outcomes(conformance.read(LINES))))[2:]
    assert rows == [
        ["onnxruntime", "whole", "2", "2", "0", "0", "0"],
        ["onednn", "whole", "0", "0", "0", "0", "1"],
        ["onednn", "at every cut", "1", "0", "0", "0", "0"],
        ["openvino", "whole", "0", "0", "0", "1", "0"],
    ]


def test_sentences_are_counted_without_what_is_of_one_case():
    rows = lines_of("\n".join(conformance.sentences(conformance.read(LINES), "onnxruntime")))[2:]
    assert rows == [["2", "refused", "Could not find an implementation for … n"]]


def test_families_are_found_by_name():
    rows = lines_of("\n".join(conformance.families(conformance.read(LINES))))[2:]
    assert rows[0] == ["control flow", "1 passed", "none", "none"]


def test_tables_take_the_place_of_those_before():
    document = f"a\n{conformance.BEGIN}\nold\n{conformance.END}\nb\n"
    assert conformance.put(document, "new") == f"a\n{conformance.BEGIN}\nnew\n{conformance.END}\nb\n"


def test_the_document_holds_what_the_script_writes():
    """Its heads, backends and forms, that is: counts are of the engines that were there."""
    text = conformance.DOCUMENT.read_text(encoding="utf-8")
    tables = text.split(conformance.BEGIN)[1].split(conformance.END)[0]
    made = conformance.render(
        [
            conformance.Record(backend, "node/test_loop", form, "passed", "")
            for backend in conformance.BACKENDS
            for form in conformance.FORMS
            if (backend, form) != ("onnxruntime", "with constants")
        ]
    )

    def kind(text: str) -> list[list[str]]:
        """Counts are left out, and which sentences there were."""
        kept = [line for line in text.splitlines() if not re.match(r"\| \d", line)]
        rows = lines_of("\n".join(kept))
        return [["" if re.match(r"\d|none", cell) else cell for cell in row[:2]] for row in rows]

    assert kind(tables) == kind(made)
    counts = {row[0]: sum(map(int, row[2:])) for row in lines_of(tables) if row[1:2] == ["whole"]}
    assert set(counts) == set(conformance.BACKENDS)
    assert len(set(counts.values())) == 1, "each case has one outcome on each backend"
