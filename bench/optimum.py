#!/usr/bin/env python3
"""Compares plans and their bounds with a solver of mixed-integer programs (HiGHS).

    bench/optimum.py [--cases N] [--seed N] [--groups LOW-HIGH] [--seconds S] [--solver-seconds S]
                     [--keep FOLDER] [--json FILE]

Each case is a seeded random problem: a chain, parallel branches, a wide or a dense graph of 20 to 60
groups, 3 to 5 devices of two or three types that like groups more or less, one or two modes for each
type, some with a launch cost, groups that some modes do not support, memory that may bind, transfers from
a tenth of a group's time to as much; one stage a device, or virtual stages. It is planned in --seconds, and
given to the solver as a program that shares nothing with the planner: it is told neither the plan nor the
bound, but that the period is at most the plan's.

For each case: the plan's period and bound beside what the solver knows, how far the plan is above the best
and how far the bound is below it ("?" where the solver did not end: against its own bounds), and the word
DISAGREE where the two contradict each other. Ends with 1 where any does.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import highspy
import numpy as np
from plans import ROOT, for_types, random_problem

PENSTOCK = os.environ.get("PENSTOCK_BIN", str(ROOT / "build/release/bin/penstock"))
ROUNDING = 1e-5  # The solver keeps its rows within 1e-7, each of some hundred terms.


class Found(NamedTuple):
    """What is known of the least period; `upper` is infinite where no split exists or none is known."""

    lower: float
    upper: float
    ended: bool


def with_modes(problem: dict, draw: random.Random) -> dict:
    """Each type with a second mode at times, groups that a mode does not support, and caps on memory."""
    types, columns = [], []
    launches = draw.random() < 0.5
    total = sum(node["size"] for node in problem["nodes"])
    devices = sum(type_["count"] for type_ in problem["deviceTypes"])
    tight = draw.random() < 0.5
    for place, type_ in enumerate(problem["deviceTypes"]):
        modes = [{"name": f"m{i}", "launch": draw.uniform(0, 2) if launches else 0} for i in range(draw.choice((1, 2)))]
        columns += [(place, mode) for mode in range(len(modes))]
        caps = {"size": total / devices * draw.uniform(1.1, 1.6)} if tight else {}
        types.append({**type_, **caps, "modes": modes})
    nodes = []
    for node in problem["nodes"]:
        times = [node["latencies"][place] * (draw.uniform(0.6, 1.6) if mode else 1) for place, mode in columns]
        lacks = draw.randrange(len(times)) if draw.random() < 0.1 else -1
        nodes.append({**node, "latencies": [None if i == lacks else time for i, time in enumerate(times)]})
    return {**problem, "deviceTypes": types, "nodes": nodes}


def problem_of(seed: int, groups: tuple[int, int]) -> tuple[dict, bool]:
    """A problem, and whether its stages are virtual."""
    draw = random.Random(f"optimum {seed}")
    shape = draw.choice(("chain", "near", "branches", "wide", "wide", "dense"))
    count = draw.randint(*groups)
    problem = random_problem(shape, count, draw.choice((0.1, 0.3, 1.0)), seed)
    for node in problem["nodes"]:
        node["size"] = draw.uniform(0.5, 1.5)
    counts = draw.choice(((2, 1), (2, 2), (1, 1, 1), (2, 1, 1), (2, 2, 1)))
    virtual = seed % 3 == 0
    problem = with_modes(for_types(problem, counts, seed), draw)
    if virtual:  # The program below knows no launch cost of segments.
        for type_ in problem["deviceTypes"]:
            type_["modes"] = [{**mode, "launch": 0} for mode in type_["modes"]]
    return problem, virtual


class Program:
    """Rows and columns as they come; all columns between 0 and 1 but the first, which is the period."""

    def __init__(self, most: float) -> None:
        self.lower, self.upper, self.whole = [0.0], [most], [False]
        self.rows: list[tuple[float, float, list[int], list[float]]] = []

    def column(self, whole: bool = False) -> int:
        self.lower.append(0.0)
        self.upper.append(1.0)
        self.whole.append(whole)
        return len(self.lower) - 1

    def row(self, low: float, high: float, terms: list[tuple[int, float]]) -> None:
        self.rows.append((low, high, [column for column, _ in terms], [factor for _, factor in terms]))

    def solve(self, seconds: float) -> Found:
        solver = highspy.Highs()
        solver.silent()
        options = {"threads": 1, "time_limit": seconds, "mip_rel_gap": 1e-7, "mip_abs_gap": 1e-9,
                   "mip_feasibility_tolerance": 1e-7, "primal_feasibility_tolerance": 1e-8}  # fmt: skip
        for name, value in options.items():
            solver.setOptionValue(name, value)
        columns = len(self.lower)
        solver.addVars(columns, np.array(self.lower), np.array(self.upper))
        for column, whole in enumerate(self.whole):
            if whole:
                solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        solver.changeColCost(0, 1.0)
        for low, high, places, factors in self.rows:
            solver.addRow(low, high, len(places), np.array(places, dtype=np.int32), np.array(factors))
        solver.run()
        status, known = solver.getModelStatus(), solver.getInfo()
        if status == highspy.HighsModelStatus.kInfeasible:
            return Found(float("inf"), float("inf"), True)
        some = known.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        upper = known.objective_function_value if some else float("inf")
        return Found(known.mip_dual_bound, upper, status == highspy.HighsModelStatus.kOptimal)


def modes_of(problem: dict) -> list[tuple[int, float]]:
    """Of each mode the type and the launch cost."""
    return [(t, mode.get("launch", 0)) for t, type_ in enumerate(problem["deviceTypes"]) for mode in type_["modes"]]


def cap_of(problem: dict, type_: int) -> float:
    return problem["deviceTypes"][type_].get("size", sum(node["size"] for node in problem["nodes"]))


def values_of(problem: dict) -> list[tuple[int, list[int], float]]:
    """Of each node that others read: it, those, and what moving its output costs."""
    readers: dict[int, list[int]] = {}
    cost = {}
    for edge in problem["edges"]:
        readers.setdefault(edge["sourceId"], []).append(edge["destId"])
        cost[edge["sourceId"]] = edge["cost"]
    return [(writer, sorted(set(of)), cost[writer]) for writer, of in readers.items()]


def put_loads(program: Program, problem: dict, here: list[list[int]], compute: list[list[tuple[int, float]]]) -> None:
    """Computing and transfers of each place fit the period. here: [node][place], 1 where the node is there."""
    for place, terms in enumerate(compute):
        moved = []
        for writer, readers, cost in values_of(problem):
            received, sent = program.column(), program.column()
            for reader in readers:
                program.row(-1, 0, [(here[reader][place], 1), (here[writer][place], -1), (received, -1)])
                program.row(-1, 0, [(here[writer][place], 1), (here[reader][place], -1), (sent, -1)])
            moved += [(received, cost), (sent, cost)]
        program.row(-np.inf, 0, [*terms, *moved, (0, -1.0)])


def staged_program(problem: dict, most: float) -> Program:
    """One stage a device: places are the stages, in their order; each has a mode, or none and is empty."""
    program, modes, nodes = Program(most), modes_of(problem), problem["nodes"]
    places = range(sum(type_["count"] for type_ in problem["deviceTypes"]))
    runs = [[program.column(whole=True) for _ in modes] for _ in places]
    here = [[program.column(whole=True) for _ in places] for _ in nodes]
    compute: list[list[tuple[int, float]]] = []
    for place in places:
        program.row(0, 1, [(column, 1) for column in runs[place]])
        if place > 0:
            after = [(column, -1) for column in runs[place]]
            program.row(0, 1, [*((column, 1) for column in runs[place - 1]), *after])
        terms = [(runs[place][m], launch) for m, (_, launch) in enumerate(modes)]
        for n, node in enumerate(nodes):
            ways = []
            for m, time in enumerate(node["latencies"]):
                if time is None:
                    continue
                ways.append((program.column(), 1))
                program.row(-1, 0, [ways[-1], (runs[place][m], -1)])
                terms.append((ways[-1][0], time))
            program.row(0, 0, [*ways, (here[n][place], -1)])
        caps = [(runs[place][m], -cap_of(problem, type_)) for m, (type_, _) in enumerate(modes)]
        program.row(-np.inf, 0, [*((here[n][place], node["size"]) for n, node in enumerate(nodes)), *caps])
        compute.append(terms)
    for t, type_ in enumerate(problem["deviceTypes"]):
        own = [(runs[place][m], 1) for place in places for m, (of, _) in enumerate(modes) if of == t]
        program.row(0, type_["count"], own)
    for n in range(len(nodes)):
        program.row(1, 1, [(column, 1) for column in here[n]])
    for edge in problem["edges"]:
        first, second = here[edge["sourceId"]], here[edge["destId"]]
        for last in places:
            until = range(last + 1)
            program.row(0, np.inf, [*((first[p], 1) for p in until), *((second[p], -1) for p in until)])
    put_loads(program, problem, here, compute)
    return program


def virtual_program(problem: dict, most: float) -> Program:
    """Virtual stages: places are the devices; order binds nothing, and each node has a mode of its own."""
    program, modes, nodes = Program(most), modes_of(problem), problem["nodes"]
    devices = [t for t, type_ in enumerate(problem["deviceTypes"]) for _ in range(type_["count"])]
    compute: list[list[tuple[int, float]]] = [[] for _ in devices]
    here: list[list[int]] = []
    for node in nodes:
        here.append([program.column(whole=True) for _ in devices])
        program.row(1, 1, [(column, 1) for column in here[-1]])
        for device, type_ in enumerate(devices):
            times = [time for time, (t, _) in zip(node["latencies"], modes, strict=True) if t == type_]
            able = [time for time in times if time is not None]
            if able:
                compute[device].append((here[-1][device], min(able)))
            else:
                program.row(0, 0, [(here[-1][device], 1)])
    for device, type_ in enumerate(devices):
        program.row(0, cap_of(problem, type_), [(here[n][device], node["size"]) for n, node in enumerate(nodes)])
    put_loads(program, problem, here, compute)
    return program


def planned(problem: dict, virtual: bool, seconds: float, file: Path) -> Found:
    """What `penstock plan` says; upper and lower are infinite where it says that there is no plan."""
    file.write_text(json.dumps(problem))
    options = ["--segments-per-device=4000"] if virtual else []
    command = [PENSTOCK, "plan", "--workload", str(file), "--json", f"--deadline={seconds}", *options]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode == 0:
        plan = json.loads(run.stdout)
        return Found(plan["lower_bound"], plan["period"], plan["proved"])
    if "no plan exists" in run.stderr:
        return Found(float("inf"), float("inf"), True)
    if "no plan was found" in run.stderr:
        return Found(0, float("inf"), False)
    raise RuntimeError(f"{file}: penstock plan failed: {run.stderr}")


def solved(problem: dict, virtual: bool, most: float, seconds: float) -> Found:
    program = (virtual_program if virtual else staged_program)(problem, most * (1 + 1e-7))
    return program.solve(seconds)


def contradiction(plan: Found, best: Found) -> str:
    """Why both cannot be right; empty: they can."""
    if plan.upper < best.lower * (1 - ROUNDING):
        return f"the plan has a period of {plan.upper}, and the solver refutes all below {best.lower}"
    if plan.lower > best.upper * (1 + ROUNDING):
        return f"the solver has a period of {best.upper}, and the bound is {plan.lower}"
    if plan.ended and best.ended and plan.upper > best.upper * (1 + ROUNDING):
        return f"the plan of {plan.upper} is called the best, and the solver has {best.upper}"
    return ""


def row_of(seed: int, groups: tuple[int, int], seconds: float, solver_seconds: float, folder: Path) -> dict:
    problem, virtual = problem_of(seed, groups)
    plan = planned(problem, virtual, seconds, folder / f"{seed}.json")
    total = sum(max(time or 0 for time in node["latencies"]) + 2 * len(problem["nodes"]) for node in problem["nodes"])
    best = solved(problem, virtual, min(plan.upper, total), solver_seconds)
    if plan.upper < float("inf") and best.upper == float("inf") and not best.ended:
        best = best._replace(upper=plan.upper)  # The solver found no split at all in its time.
    return {"case": seed, "groups": len(problem["nodes"]), "virtual": virtual, "plan": plan._asdict(),
            "solver": best._asdict(), "wrong": contradiction(plan, best)}  # fmt: skip


def print_row(row: dict) -> None:
    plan, best = row["plan"], row["solver"]
    sure = "" if best["ended"] else "?"
    words = "no plan"
    if plan["upper"] < float("inf"):
        above = f"{100 * (plan['upper'] / best['upper'] - 1):8.3f} %{sure}"
        below = f"{100 * (1 - plan['lower'] / best['upper']):8.3f} %{sure}"
        words = f"{plan['upper']:10.5f} {'proved' if plan['ended'] else '':>6} plan {above:12} bound {below:12}"
        words += f" solver's own {100 * (1 - best['lower'] / best['upper']):7.3f} %"
    kind = "virtual" if row["virtual"] else "stages"
    print(
        f"{row['case']:5} {row['groups']:3} {kind:8} {words}",
        "DISAGREE: " * bool(row["wrong"]) + row["wrong"],
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--groups", default="20-60")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--solver-seconds", type=float, default=60)
    parser.add_argument("--keep", type=Path, help="write the problems there")
    parser.add_argument("--json", type=Path, help="write the rows there too")
    options = parser.parse_args()
    low, high = map(int, options.groups.split("-"))
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for seed in range(options.seed, options.seed + options.cases):
            rows.append(row_of(seed, (low, high), options.seconds, options.solver_seconds, folder))
            print_row(rows[-1])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    wrong = sum(bool(row["wrong"]) for row in rows)
    ended = sum(row["solver"]["ended"] for row in rows)
    print(f"{len(rows)} cases, {ended} of them solved to the end, {wrong} contradictions")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
