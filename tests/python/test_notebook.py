"""What notebooks show, the notebook of examples/ run cell by cell, and progress as a bar."""

import ast
import json
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from penstock.show import BuildReport, Plan, Verdict, table, told

import penstock

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples/notebook/penstock.ipynb"


class Cells(HTMLParser):
    """The rows of a table; fails where a tag is not closed by its own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def cells_of(notebook: Path) -> list[str]:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell; gives the value of its last line where that is an expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None


@pytest.mark.sweep(of=3)
def test_the_notebook_runs_and_shows_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_COSTS", os.fspath(tmp_path / "costs.db"))
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [value for source in cells_of(NOTEBOOK) if hasattr(value := run_cell(source, names), "_repr_html_")]
    assert [type(value).__name__ for value in shown] == ["BuildReport", "Plan", "Verdict", "Pipeline"]
    report, plan, verdict, _ = shown
    rows = Cells(report._repr_html_()).rows
    assert {row[1] for row in rows if row[0] == "simple way"} == {way["name"] for way in report["simple"]}
    assert [row[0] for row in Cells(plan._repr_html_()).rows[1:]] == [stage["name"] for stage in plan["stages"]]
    assert Cells(verdict._repr_html_()).rows[1][:2] == ["scores", "right"]
    assert sum(names["best"]) > 0 and len(names["best"]) == 100


def test_a_notebook_is_kept_without_its_outputs() -> None:
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert all(cell["outputs"] == [] for cell in content["cells"] if cell["cell_type"] == "code")


def test_a_table_holds_any_text() -> None:
    assert Cells(table("<a>", ("x", "y"), [("<b>&", None)])).rows == [["x", "y"], ["<b>&", ""]]


def test_reports_are_dicts_and_show_what_little_they_hold() -> None:
    failed = {"name": "a", "frames_per_second": 0.0, "failure": "it crashed", "what": "alone"}
    assert Cells(BuildReport(chosen="a", ways=[failed])._repr_html_()).rows[1] == ["plan", "a", "0", "it crashed"]
    assert json.loads(json.dumps(Plan(model="m"))) == {"model": "m"}
    for empty in (BuildReport(), Plan(), Verdict()):
        assert len(Cells(empty._repr_html_()).rows) == 1


def test_a_report_shows_what_the_build_was_for() -> None:
    way = {"name": "a", "frames_per_second": 16737.3, "latency_seconds": 0.0000597, "what": "alone"}
    fast = BuildReport(goal="throughput", chosen="a", ways=[way], period_seconds=1 / 16737.3)
    assert "chosen: a, 16,737 frames a second" in fast._repr_html_()
    assert Cells(fast._repr_html_()).rows == [["kind", "way", "frames/s", "what"], ["plan", "a", "16,737", "alone"]]
    soon = BuildReport(goal="latency", chosen="a", ways=[way], period_seconds=0.0001, latency_seconds=0.0000597)
    assert "chosen: a, 0.0597 ms a frame, 10,000 frames a second" in soon._repr_html_()
    head, row = Cells(soon._repr_html_()).rows
    assert head == ["kind", "way", "latency", "frames/s", "what"]
    assert row == ["plan", "a", "0.0597 ms", "16,737", "alone"]


STEPS = (("parts", 0.25), ("contest", 0.5), ("contest", 0.4))


def test_progress_is_a_bar_of_tqdm_that_never_goes_back(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm", reason="no tqdm in this environment: run script/setup")
    with told(True) as tell:
        assert tell is not None
        for what, share in STEPS:
            tell(what, share)
    seen = re.findall(r"(?:(\w+): )? *(\d+)%\|", capsys.readouterr().err)
    assert [step for i, step in enumerate(seen) if step not in seen[:i]] == [
        ("", "0"),
        ("parts", "25"),
        ("contest", "50"),
        ("done", "100"),
    ]


def test_a_bar_stays_where_it_was_when_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm", reason="no tqdm in this environment: run script/setup")
    with pytest.raises(ValueError, match="broken"), told(True) as tell:
        assert tell is not None
        tell("parts", 0.25)
        raise ValueError("broken")
    said = capsys.readouterr().err
    assert re.findall(r"(\d+)%\|", said)[-1] == "25" and said.endswith("\n")


def test_a_bar_without_tqdm_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(penstock.Unavailable, match="needs tqdm, which is not here; pip install tqdm"), told(True):
        pass


def test_progress_is_who_is_told_or_nobody() -> None:
    for nobody in (None, False):
        with told(nobody) as tell:
            assert tell is None
    with told(print) as tell:
        assert tell is print
    refused = pytest.raises(penstock.InvalidArgument, match="progress: expected True for a bar")
    with refused, told("yes"):  # type: ignore[arg-type]
        pass
