#!/usr/bin/env python3
"""Prints where plans are not proved: the gap to the bound, and how far they are from the best known.

    bench/gaps.py [--only TEXT] [--seeds N,N,...] [--seconds S] [--known FILE [--keep]] [--json FILE]
                  [WORKLOAD.json|FOLDER ...]

wide      random graphs of 200 groups in layers of 14, which read any of the layer before, for devices of
          unlike types (2 x 2, 3 x 3, 4 x 4 devices), transfers a tenth of a group's time (cheap), a third
          (fair) and as much (dear); one stage a device, 5 s each, for each of --seeds
virtual   each workload with virtual stages without limit, for 2, 4, 8 and 16 devices, its transfers as they
          are, times 125 and times 1000; 10 s each

--only     cases with TEXT in their names
--seconds  in place of 5 and 10
--known    the least periods known, by name of case; "-" stands where none is
--keep     writes plans that are better into that file: with more --seconds, or other code
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from plans import for_types, plan, random_problem, workloads_in

COUNTS = {"2x2": (2, 2), "3x3": (3, 3, 3), "4x4": (4, 4, 4, 4)}
PRICES = {"cheap": 0.1, "fair": 0.3, "dear": 1.0}
DEVICES = (2, 4, 8, 16)
FACTORS = (1, 125, 1000)
WIDE_SECONDS, VIRTUAL_SECONDS = 5, 10


class Case(NamedTuple):
    name: str
    file: Path
    options: list[str]
    seconds: float


def wide_cases(seeds: list[int], folder: Path) -> Iterator[Case]:
    for kinds, counts in COUNTS.items():
        for price, transfers in PRICES.items():
            for seed in seeds:
                name = f"wide/{kinds}/{price}/{seed}"
                file = folder / f"{name.replace('/', '-')}.json"
                file.write_text(json.dumps(for_types(random_problem("wide", 200, transfers, seed), counts, seed)))
                yield Case(name, file, [], WIDE_SECONDS)


def virtual_cases(workloads: list[Path]) -> Iterator[Case]:
    for file in workloads:
        for factor in FACTORS:
            for devices in DEVICES:
                options = [f"--devices={devices}", f"--communication-factor={factor}", "--segments-per-device=4000"]
                name = f"virtual/{file.parent.name[0]}/{file.stem}/x{factor}/{devices}"
                yield Case(name, file, options, VIRTUAL_SECONDS)


def row_of(case: Case, seconds: float | None, known: dict[str, float]) -> dict:
    limit = case.seconds if seconds is None else seconds
    found = plan(case.file, [*case.options, f"--deadline={limit}"])
    best = known.get(case.name)
    above = None if best is None else found["period"] / best - 1
    keys = ("period", "lower_bound", "gap", "proved", "wall")
    return {"case": case.name, **{key: found[key] for key in keys}, "known": best, "above": above}


def percent(part: float | None, digits: int) -> str:
    return "-" if part is None else f"{100 * part:.{digits}f} %"


def print_row(row: dict) -> None:
    gap = "proved" if row["proved"] else percent(row["gap"], 2)
    print(
        f"{row['case']:44} {row['period']:13.6f} {gap:>9} {percent(row['above'], 3):>10} {row['wall']:7.2f}", flush=True
    )


def print_summary(rows: list[dict]) -> None:
    """Of each family of cases the mean and the worst gap and distance."""
    families: dict[str, list[dict]] = {}
    for row in rows:
        parts = row["case"].split("/")
        families.setdefault("/".join(parts[:3] if parts[0] == "wide" else [parts[0], parts[3]]), []).append(row)
    print(f"\n{'family':24} {'cases':>6} {'proved':>7} {'mean gap':>9} {'worst':>9} {'above, mean':>12} {'worst':>9}")
    for family, of in families.items():
        gaps = [row["gap"] or 0 for row in of]
        above = [row["above"] for row in of if row["above"] is not None]
        mean = percent(sum(above) / len(above), 3) if above else "-"
        worst = percent(max(above), 3) if above else "-"
        print(f"{family:24} {len(of):6} {sum(row['proved'] for row in of):7} {percent(sum(gaps) / len(of), 2):>9} "
              f"{percent(max(gaps), 2):>9} {mean:>12} {worst:>9}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", type=Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--known", type=Path)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--json", type=Path, help="write the rows there too")
    options = parser.parse_args()
    known = json.loads(options.known.read_text()) if options.known and options.known.exists() else {}
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        seeds = [int(seed) for seed in options.seeds.split(",")]
        cases = [*wide_cases(seeds, Path(scratch)), *virtual_cases(workloads_in(options.workloads))]
        print(f"{'case':44} {'period':>13} {'gap':>9} {'above':>10} {'s':>7}")
        for case in cases:
            if not all(text in case.name for text in options.only):
                continue
            rows.append(row_of(case, options.seconds, known))
            print_row(rows[-1])
            known[case.name] = min(known.get(case.name, float("inf")), rows[-1]["period"])
    print_summary(rows)
    if options.keep and options.known:
        options.known.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
