"""bench/optimum.py: plans against a solver of mixed-integer programs, which shares nothing with the planner."""

import importlib
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
SMALL = (8, 14)  # The solver ends within seconds.


@pytest.fixture(scope="module")
def optimum():
    pytest.importorskip("highspy", reason="the solver is not installed: pip install -r requirements-dev.txt")
    sys.path.append(str(BENCH))
    return importlib.import_module("optimum")


@pytest.mark.sweep(of=6)
@pytest.mark.parametrize("seed", range(1, 31))
def test_the_plan_is_the_solvers(optimum, monkeypatch, program, tmp_path, seed):
    monkeypatch.setattr(optimum, "PENSTOCK", str(program))
    row = optimum.row_of(seed, SMALL, 10, 60, tmp_path)
    assert not row["wrong"], row
    if row["solver"]["ended"] and row["plan"]["ended"]:
        assert row["plan"]["upper"] == pytest.approx(row["solver"]["upper"], rel=optimum.ROUNDING)


def test_a_contradiction_is_told(optimum):
    found = optimum.Found
    assert not optimum.contradiction(found(3, 4, False), found(3.5, 4, True))
    assert "refutes all below 5" in optimum.contradiction(found(3, 4, False), found(5, 6, False))
    assert "the bound is 4" in optimum.contradiction(found(4, 4, True), found(3, 3.5, True))
    assert not optimum.contradiction(found(float("inf"), float("inf"), True), found(float("inf"), float("inf"), True))
