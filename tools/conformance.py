#!/usr/bin/env python3
"""Writes the tables of docs/conformance.md: what each backend makes of ONNX's own operator cases.

Runs all the cases with the test program, whole and at every cut, which takes about ten minutes; or reads the records of
such a run. A record is a line of five fields with tabs between: backend, case, form, outcome, what was said."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs/conformance.md"
BEGIN, END = "<!-- begin: tools/conformance.py -->", "<!-- end -->"
BACKENDS = ("onnxruntime", "onednn", "openvino")
FORMS = {"whole": "whole", "with constants": "all inputs but the first constant", "cut": "at every cut"}
SENTENCES = 12  # of each backend; rarer ones are counted together
FAMILIES = {
    "control flow": r"test_(if|loop|scan|range_.*expanded)",
    "sequences": r"sequence|test_concat_from|test_split_to",
    "optionals": r"optional",
    "texts": r"string|strnormalizer|tfidf|regex|label_encoder|test_equal_string|test_cast.*STRING",
}


class Record(NamedTuple):
    backend: str
    case: str
    form: str
    outcome: str
    said: str


def read(lines: Iterable[str]) -> list[Record]:
    return [Record(*line.rstrip("\n").split("\t")) for line in lines]


def sentence_of(said: str) -> str:
    """What was said, without what is of the one case."""
    text = re.sub(r"^\S+/\S+: (model '[^']*': )?", "", said)
    text = re.sub(r"found .*", "found …", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'…'", text)
    text = re.sub(r"(node|operator|implementation for|conversion for|a node of) [\w.:-]+(\(-?\d+\))?", r"\1 …", text)
    text = re.sub(r"\S+(\(-?\d+\)) is not a registered", "… is not a registered", text)
    text = re.sub(r"\(\w+\): ", "(…): ", text)
    text = re.sub(r"(?<![A-Za-z])\d+(\.\d+)?|\binf\b", "N", text).replace("|", "/")
    return text if len(text) < 160 else text[:157] + "…"


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> list[str]:
    return ["", row(*head), "|---" * len(head) + "|", *(row(*cells) for cells in rows)]


def outcomes(records: list[Record]) -> list[str]:
    counts = Counter((r.backend, r.form, r.outcome) for r in records)
    head = (
        "backend",
        "form",
        "passed",
        "refused by the engine",
        "other values than the case",
        "excused",
        "not claimed",
    )
    kinds = ("passed", "refused", "wrong", "excused", "unclaimed")
    rows = [
        (backend, text, *(counts[backend, form, kind] for kind in kinds))
        for backend in BACKENDS
        for form, text in FORMS.items()
        if any(counts[backend, form, kind] for kind in kinds)
    ]
    return table(head, rows)


def families(records: list[Record]) -> list[str]:
    rows = []
    for family, pattern in FAMILIES.items():
        of_family = [r for r in records if r.form == "whole" and re.search(pattern, r.case)]
        cells = []
        for backend in BACKENDS:
            counts = Counter(r.outcome for r in of_family if r.backend == backend)
            cells.append(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "none")
        rows.append((family, *cells))
    return table(("cases of", *BACKENDS), rows)


def sentences(records: list[Record], backend: str) -> list[str]:
    not_passed = [r for r in records if r.backend == backend and r.outcome != "passed"]
    kinds = Counter((r.outcome, sentence_of(r.said) or "its rules leave it to another backend") for r in not_passed)
    common = kinds.most_common(SENTENCES)
    rows = [(count, outcome, text) for (outcome, text), count in common]
    rest = kinds.total() - sum(count for count, _, _ in rows)
    if rest:
        rows.append((rest, "", f"{len(kinds) - len(common)} rarer sentences"))
    return ["", f"## {backend}", *table(("cases", "outcome", "why"), rows)]


def render(records: list[Record]) -> str:
    lines = [*outcomes(records), *families(records)]
    for backend in BACKENDS:
        lines += sentences(records, backend)
    return "\n".join(lines).strip("\n")


def put(document: str, tables: str) -> str:
    before, rest = document.split(BEGIN)
    return f"{before}{BEGIN}\n{tables}\n{END}{rest.split(END, 1)[1]}"


def run(program: Path, cases: Path) -> list[Record]:
    environment = {key: value for key, value in os.environ.items() if key != "PENSTOCK_SAMPLE"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.tsv"
        environment |= {"PENSTOCK_OPERATOR_CASES": str(cases), "PENSTOCK_CONFORMANCE": str(file)}
        command = [program, "--gtest_filter=*OperatorCases*:*ClaimedCases*:-*light*", "--gtest_brief=1"]
        done = subprocess.run(command, env=environment, check=False)
        if done.returncode != 0 or not file.exists():
            sys.exit(f"conformance.py: error: {program} failed; it says why above")
        return read(file.read_text(encoding="utf-8").splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, default=ROOT / "build/dev/bin/operator_cases_tests")
    parser.add_argument("--cases", type=Path, help="onnx/backend/test/data (default: of the onnx in .venv)")
    parser.add_argument("--records", type=Path, help="of a run before, instead of running")
    arguments = parser.parse_args()
    if arguments.records:
        records = read(arguments.records.read_text(encoding="utf-8").splitlines())
    else:
        found = sorted(ROOT.glob(".venv/lib/python3*/site-packages/onnx/backend/test/data"))
        if not arguments.cases and not found:
            parser.error("no onnx in .venv: run script/setup, or name the folder with --cases")
        records = run(arguments.program, arguments.cases or found[0])
    DOCUMENT.write_text(put(DOCUMENT.read_text(encoding="utf-8"), render(records)), encoding="utf-8")


if __name__ == "__main__":
    main()
