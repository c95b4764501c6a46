#!/usr/bin/env python3
"""Prints what the planner finds for planning problems, beside simple ways to split them.

    bench/plans.py [--json FILE] [--svg FILE] [--option TEXT]... WORKLOAD.json|FOLDER ...
    bench/plans.py --growth [--svg FILE] WORKLOAD.json ...
    bench/plans.py --random [--keep FOLDER] [WORKLOAD.json|FOLDER ...]

For each problem: groups, the period, its gap to the proved bound, seconds and peak memory of the
whole process, and how much longer the period of other splits is, all from the same run of
`penstock plan`. "-": the way gives no valid split.

--growth  repeats each problem in series until it has 5,000 nodes (compute +-20 %, seeded), plans each
          size for 16 devices in one second, and draws seconds over nodes with --svg.
--random  plans seeded random problems for devices of three types, or all different: chains, near
          chains and wide graphs, with transfers that cost a tenth of a group's time (cheap) or as much
          (dear); then the workloads for three types of devices. --keep writes the problems into a folder.
--option  goes to `penstock plan`, as in --option=--segments-per-device=4.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PENSTOCK = os.environ.get("PENSTOCK_BIN", str(ROOT / "build/release/bin/penstock"))
WAYS = ("one_order", "equal_split", "torchgpipe", "pipedream", "single_device")


def plan(workload: Path, options: list[str]) -> dict:
    """One run of `penstock plan`, with its wall seconds and its peak memory."""
    command = [PENSTOCK, "plan", "--workload", str(workload), "--json", *options]
    with tempfile.TemporaryFile() as out:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        if status != 0:
            raise RuntimeError(f"{workload}: penstock plan failed")
        out.seek(0)
        found = json.load(out)
    return {**found, "wall": seconds, "peak_mib": usage.ru_maxrss / 1024}


def row_of(workload: Path, options: list[str]) -> dict:
    problem = json.loads(workload.read_text())
    found = plan(workload, options)
    return {
        "workload": "/".join(workload.parts[-3:]).removesuffix(".json"),
        "nodes": len(problem["nodes"]),
        **{key: found[key] for key in ("period", "latency", "lower_bound", "gap", "proved", "wall", "peak_mib")},
        "baselines": found["baselines"],
    }


def print_rows(rows: list[dict]) -> None:
    ways = "".join(f"{way:>14}" for way in WAYS)
    print(f"{'workload':46} {'nodes':>6} {'period':>12} {'gap':>9} {'s':>7} {'MiB':>6}{ways}")
    for row in rows:
        others = ""
        for way in WAYS:
            cost = row["baselines"].get(way)
            others += f"{'-':>14}" if cost is None else f"{100 * (cost / row['period'] - 1):>12.1f} %"
        gap = "proved" if row["proved"] else "-" if row["gap"] is None else f"{100 * row['gap']:.2f} %"
        print(f"{row['workload'][-46:]:46} {row['nodes']:6} {row['period']:12.6f} {gap:>9} "
              f"{row['wall']:7.3f} {row['peak_mib']:6.0f}{others}")  # fmt: skip


def ends_of(problem: dict, backward: bool) -> list[tuple[int, int]]:
    """Every sink with every source of the problem's forward or backward nodes."""
    ids = {node["id"] for node in problem["nodes"] if bool(node.get("isBackwardNode", 0)) == backward}
    edges = [edge for edge in problem["edges"] if {edge["sourceId"], edge["destId"]} <= ids]
    sinks = ids - {edge["sourceId"] for edge in edges}
    sources = ids - {edge["destId"] for edge in edges}
    return [(sink, source) for sink in sorted(sinks) for source in sorted(sources)]


def in_series(problem: dict, copies: int) -> dict:
    """The problem behind itself: every sink of a copy feeds every source of the next; those of a backward
    pass feed the copy before."""
    shuffle = random.Random(copies)
    nodes, edges = [], []
    stride = max(node["id"] for node in problem["nodes"]) + 1
    cost_of = {edge["sourceId"]: edge["cost"] for edge in problem["edges"]}
    seams = [(sink, source + stride) for sink, source in ends_of(problem, False)]
    seams += [(sink + stride, source) for sink, source in ends_of(problem, True)]
    colours = max((node.get("colorClass", 0) for node in problem["nodes"]), default=0) + 1
    for copy in range(copies):
        for node in problem["nodes"]:
            jitter = shuffle.uniform(0.8, 1.2)
            changed = {"id": node["id"] + copy * stride, "fpgaLatency": node["fpgaLatency"] * jitter,
                       "cpuLatency": node["cpuLatency"] * jitter}  # fmt: skip
            if "colorClass" in node:
                changed["colorClass"] = node["colorClass"] + copy * colours
            nodes.append({**node, **changed})
        for edge in problem["edges"]:
            ends = {key: edge[key] + copy * stride for key in ("sourceId", "destId")}
            edges.append({**edge, **ends})
        for source, sink in seams if copy > 0 else ():
            ends = {"sourceId": source + (copy - 1) * stride, "destId": sink + (copy - 1) * stride}
            edges.append({**ends, "cost": cost_of.get(source % stride, 0.0)})
    return {**problem, "nodes": nodes, "edges": edges, "maxSizePerFPGA": problem["maxSizePerFPGA"] * copies}


def growth_of(workload: Path) -> list[dict]:
    problem = json.loads(workload.read_text())
    rows = []
    shares = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
    for copies in sorted({max(1, round(5000 * share / len(problem["nodes"]))) for share in shares}):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{workload.stem}x{copies}.json"
            file.write_text(json.dumps(in_series(problem, copies)))
            rows.append(row_of(file, ["--devices=16", "--cpus=0", "--deadline=1"]))
            rows[-1]["workload"] = file.stem
    return rows


def draw_growth(series: dict[str, list[dict]], file: Path) -> None:
    """Seconds over nodes, one line for each problem."""
    width, height, margin = 640, 400, 50
    most = max(row["wall"] for rows in series.values() for row in rows)
    nodes = max(row["nodes"] for rows in series.values() for row in rows)
    colours = ("#1b6ca8", "#c0392b", "#1e8449", "#7d3c98", "#b9770e", "#515a5a")

    def place(row: dict) -> str:
        x = margin + (width - 2 * margin) * row["nodes"] / nodes
        return f"{x:.1f},{height - margin - (height - 2 * margin) * row['wall'] / most:.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
             f'<rect width="{width}" height="{height}" fill="white"/>',
             f'<text x="{width / 2}" y="{height - 12}" text-anchor="middle">nodes, up to {nodes}</text>',
             f'<text x="{margin}" y="{margin - 20}">seconds, up to {most:.2f}</text>',
             f'<path d="M{margin},{margin} V{height - margin} H{width - margin}" fill="none" stroke="black"/>',
             ]  # fmt: skip
    for (name, rows), colour, line in zip(series.items(), colours * 3, range(99), strict=False):
        points = " ".join(place(row) for row in rows)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{margin + 20}" y="{margin + 18 * line}" fill="{colour}">{name}</text>')
    file.write_text("\n".join([*parts, "</svg>"]) + "\n")


def random_edges(shape: str, nodes: int, draw: random.Random) -> set[tuple[int, int]]:
    """Pairs of nodes, the lower first."""
    chain = {(i, i + 1) for i in range(nodes - 1)}
    if shape == "chain":
        return chain
    if shape == "near":  # Skips over one or two nodes.
        return chain | {(i, i + draw.choice((2, 3))) for i in range(nodes - 3) if draw.random() < 0.4}
    if shape in ("branches", "inception"):  # Blocks of parallel branches between one node and the next.
        counts, lengths = ((3, 4, 5, 6), (1, 2, 3)) if shape == "branches" else ((3, 4), (3, 6, 9, 12))
        edges, start = set(), 0
        while start + 1 < nodes:
            stem, ends, at = start, [], start + 1
            for _ in range(draw.choice(counts)):
                last = stem
                for _ in range(draw.choice(lengths)):
                    if at < nodes:
                        edges.add((last, at))
                        last, at = at, at + 1
                ends.append(last)
            start = min(at, nodes - 1)
            edges |= {(end, start) for end in ends if end < start}
        return edges
    if shape == "dense":  # Every node may read every other.
        share = draw.choice((0.15, 0.3))
        return {(i, j) for j in range(nodes) for i in range(j) if draw.random() < share}
    width = max(4, round(math.sqrt(nodes)))  # "wide": layers of that many, read by one to three of the next.
    edges = set()
    for j in range(width, nodes):
        layer = j // width - (1 if draw.random() < 0.9 or j < 2 * width else 2)
        edges |= {(layer * width + draw.randrange(width), j) for _ in range(draw.choice((1, 1, 2, 3)))}
    return edges


def for_types(problem: dict, counts: tuple[int, ...], seed: int) -> dict:
    """The problem for devices of types that are 0.5 to 2 times as fast, where nodes are of four kinds that like
    the types by e^+-0.7 more or less. What shares a colour is of one kind."""
    draw = random.Random(f"{counts} {seed}")
    speed = [2 ** draw.uniform(-1, 1) for _ in counts]
    liking = [[math.exp(draw.uniform(-0.7, 0.7)) for _ in counts] for _ in range(4)]
    kinds, nodes = {}, []
    for node in problem["nodes"]:
        kind = kinds.setdefault(node.get("colorClass", f"node {node['id']}"), draw.choice(liking))
        times = [node["fpgaLatency"] / s * like for s, like in zip(speed, kind, strict=True)]
        nodes.append({**node, "latencies": times})
    types = [{"name": f"type{t}", "count": count} for t, count in enumerate(counts)]
    return {"deviceTypes": types, "nodes": nodes, "edges": problem["edges"]}


def random_problem(shape: str, nodes: int, transfers: float, seed: int) -> dict:
    """Nodes with a time of 1, and values that cost `transfers`, on average."""
    draw = random.Random(f"{shape} {nodes} {transfers} {seed}")
    work = [draw.uniform(0.25, 1.75) for _ in range(nodes)]
    cost = [transfers * draw.uniform(0, 2) for _ in range(nodes)]
    ends = sorted(random_edges(shape, nodes, draw))
    edges = [{"sourceId": i, "destId": j, "cost": cost[i]} for i, j in ends]
    return {"nodes": [{"id": i, "size": 1, "fpgaLatency": work[i]} for i in range(nodes)], "edges": edges}


def random_rows(workloads: list[Path], keep: Path | None) -> list[dict]:
    three, sixteen, distinct = (3, 3, 3), (6, 5, 5), (1,) * 16
    families = [("chain", 1000, sixteen, 10), ("chain", 5000, sixteen, 10), ("chain", 1000, distinct, 10),
                ("chain", 5000, distinct, 10), ("near", 200, three, 1), ("near", 500, three, 1),
                ("branches", 120, three, 5), ("branches", 500, three, 5), ("inception", 300, three, 5),
                ("wide", 60, three, 5), ("wide", 120, three, 5), ("wide", 500, three, 5),
                ("dense", 60, three, 5)]  # fmt: skip
    rows = []

    def add(name: str, problem: dict, seconds: int) -> None:
        file = keep / f"{name}.json"
        file.write_text(json.dumps(problem))
        rows.append({**row_of(file, [f"--deadline={seconds}"]), "workload": name})

    for shape, nodes, counts, seconds in families:
        for price, transfers in (("cheap", 0.1), ("dear", 1.0)):
            for seed in (1, 2, 3):
                problem = for_types(random_problem(shape, nodes, transfers, seed), counts, seed)
                add(f"{shape}{nodes}-{len(counts)}types-{price}-{seed}", problem, seconds)
    for workload in workloads:
        for seed in (1, 2, 3):
            add(f"{workload.stem}-3types-{seed}", for_types(json.loads(workload.read_text()), three, seed), 5)
    return rows


def workloads_in(arguments: list[Path]) -> list[Path]:
    found: list[Path] = []
    for argument in arguments:
        found += sorted(argument.rglob("*.json")) if argument.is_dir() else [argument]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", type=Path)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--svg", type=Path, help="of --growth: draw it there")
    options = parser.parse_args()
    workloads = workloads_in(options.workloads)
    if not workloads and not options.random:
        parser.error("name a workload, or --random")
    if options.random:
        with tempfile.TemporaryDirectory() as scratch:
            rows = random_rows(workloads, options.keep or Path(scratch))
    elif options.growth:
        series = {workload.stem: growth_of(workload) for workload in workloads}
        rows = [row for part in series.values() for row in part]
        if options.svg:
            draw_growth(series, options.svg)
    else:
        rows = [row_of(workload, options.option) for workload in workloads]
    print_rows(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
