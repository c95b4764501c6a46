#!/usr/bin/env python3
"""Prints what the planner finds for planning problems, beside simple ways to split them.

    bench/plans.py [--json FILE] [--svg FILE] [--option TEXT]... WORKLOAD.json|FOLDER ...
    bench/plans.py --growth [--svg FILE] WORKLOAD.json ...

For each problem: groups, the period, its gap to the proved bound, seconds and peak memory of the
whole process, and how much longer the period of other splits is, all from the same run of
`penstock plan`. "-": the way gives no valid split.

--growth  repeats each problem in series until it has 5,000 nodes (compute +-20 %, seeded), plans each
          size for 16 devices in one second, and draws seconds over nodes with --svg.
--option  goes to `penstock plan`, as in --option=--segments-per-device=4.
"""

import argparse
import json
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


def in_series(problem: dict, copies: int) -> dict:
    """The problem behind itself: every sink of a copy feeds every source of the next."""
    shuffle = random.Random(copies)
    nodes, edges = [], []
    stride = max(node["id"] for node in problem["nodes"]) + 1
    cost_of = {edge["sourceId"]: edge["cost"] for edge in problem["edges"]}
    sources = {node["id"] for node in problem["nodes"]} - {edge["destId"] for edge in problem["edges"]}
    sinks = {node["id"] for node in problem["nodes"]} - cost_of.keys()
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
        if copy > 0:
            for source in sinks:
                ends = [{"sourceId": source + (copy - 1) * stride, "destId": sink + copy * stride} for sink in sources]
                edges += [{**end, "cost": 0.0} for end in ends]
    return {**problem, "nodes": nodes, "edges": edges, "maxSizePerFPGA": problem["maxSizePerFPGA"] * copies}


def growth_of(workload: Path) -> list[dict]:
    problem = json.loads(workload.read_text())
    rows = []
    for share in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1):
        copies = max(1, round(5000 * share / len(problem["nodes"])))
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


def workloads_in(arguments: list[Path]) -> list[Path]:
    found: list[Path] = []
    for argument in arguments:
        found += sorted(argument.rglob("*.json")) if argument.is_dir() else [argument]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="+", type=Path)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--svg", type=Path, help="of --growth: draw it there")
    options = parser.parse_args()
    workloads = workloads_in(options.workloads)
    if options.growth:
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
