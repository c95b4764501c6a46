"""What notebooks show, the notebook of examples/ run cell by cell, and progress as a bar."""

import ast
import json
import os
import sys
import types
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


class Bar:
    """Stands for tqdm's."""

    def __init__(self, **settings: object) -> None:
        self.settings, self.n, self.texts = settings, 0, list[str]()
        made.append(self)

    def set_description_str(self, text: str, refresh: bool) -> None:
        self.texts.append(text)

    def refresh(self) -> None:
        pass


made: list[Bar] = []


def test_progress_is_a_bar_that_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("tqdm.auto")
    module.tqdm = Bar  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    tell = told(True)
    assert tell is not None
    seen = []
    for what, share in (("parts", 0.25), ("contest", 0.5), ("contest", 0.4), ("over the budget", 3.0)):
        tell(what, share)
        seen.append(made[-1].n)
    assert seen == [25, 50, 50, 100]
    assert made[-1].texts == ["parts", "contest", "contest", "over the budget"]


def test_a_bar_without_tqdm_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(penstock.Unavailable, match="needs tqdm, which is not here; pip install tqdm"):
        told(True)


def test_progress_is_who_is_told_or_nobody() -> None:
    assert told(None) is None and told(False) is None
    assert told(print) is print
    with pytest.raises(penstock.InvalidArgument, match="progress: expected True for a bar"):
        told("yes")  # type: ignore[arg-type]
