#!/usr/bin/env python3
"""Builds each network for one CPU, and prints what mixing backends in it gains over the best single one.

    bench/mixing.py [--cpu 1] [--budget 120s] [--seconds 10] [--json FILE] [--fresh] MODEL.onnx|FOLDER ...

One thread, after the clean import: `penstock build --devices cpu:N` finds the best cover by measurement;
then it and the whole network on each single backend run in turn within one process, in rounds of some
frames. `gain` is the median over the rounds of the best single backend's time over the cover's; rounds
are short, so that what else the machine does falls on both alike. Where one backend runs all of the
network, the cover is that backend's own plan and runs once: it is compared with the other backends, and tells
nothing of mixing (`-` for the bar). The mean is over the networks in which backends are mixed.
`at most` is what no cover can gain more than, by the parts that the build measured: the best single backend's
period there over the least that a cover of such parts takes (`lower_bound_seconds`; -: it found no such bound).
Left out: making inputs (zeros for integers, seeded normal values otherwise), what the package takes to
start.

The bars: 1.05 on sinet_seg, 1.08 on basic_pitch, or the proof by `at most` that no cover can; on no network with a
mixed cover below 0.98.
--fresh begins with an empty database of costs.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from compare import ROOT, models_in, name_of, penstock, shapes_of

sys.path.append(str(ROOT / "build/release/lib/python"))

import numpy as np  # noqa: E402

from penstock import load  # noqa: E402

BARS = {"sinet_seg": 1.05, "basic_pitch": 1.08}
LEAST = 0.98
ROUND_SECONDS, LEAST_ROUNDS = 0.05, 15
RIVAL = 0.7  # Of the best single backend's speed: slower ones are not measured again.


def machine() -> str:
    found = penstock("devices")
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    engines = ", ".join(
        f"{backend['name']} {backend['engine_version']}"
        for backend in penstock("backends")["backends"]
        if backend.get("engine_version")
    )
    name = names[0].split(":", 1)[1].strip() if names else "?"
    return f"{name}, {len(found['cpus'])} CPUs; {engines}"


def random_feed(pipeline) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    feed = {}
    for info in pipeline.get_inputs():
        shape = [dim if isinstance(dim, int) else 1 for dim in info.shape or []]
        floating = np.issubdtype(np.dtype(info.dtype), np.floating)
        feed[info.name] = (random.standard_normal(shape) if floating else np.zeros(shape)).astype(info.dtype)
    return feed


def seconds_of(pipeline, feed: dict[str, np.ndarray], count: int) -> float:
    start = time.perf_counter()
    pipeline._core.run_repeatedly(feed, count)
    return (time.perf_counter() - start) / count


def race(packages: dict[str, Path], seconds: float) -> dict[str, list[float]]:
    """Seconds of a frame in each round, one frame at a time."""
    pipelines = {name: load(package) for name, package in packages.items()}
    feed = random_feed(next(iter(pipelines.values())))
    counts = {}
    for name, pipeline in pipelines.items():
        counts[name] = max(1, round(ROUND_SECONDS / min(seconds_of(pipeline, feed, 1) for _ in range(5))))
    times: dict[str, list[float]] = {name: [] for name in pipelines}
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times["cover"]) < LEAST_ROUNDS:
        for name, pipeline in pipelines.items():
            times[name].append(seconds_of(pipeline, feed, counts[name]))
    for pipeline in pipelines.values():
        pipeline.shut_down()
    return times


def single_rates(built: dict) -> dict[str, float]:
    """Frames a second of each backend that ran the whole network, the best of its ways."""
    rates: dict[str, float] = {}
    for way in built["ways"]:
        if "+" not in way["name"] and not way["failure"]:
            name = way["name"].split()[0]
            rates[name] = max(rates.get(name, 0), way["frames_per_second"])
    return rates


def singles_of(built: dict) -> list[str]:
    """Those of them that are not far behind."""
    rates = single_rates(built)
    return [name for name, rate in rates.items() if rate >= RIVAL * max(rates.values())]


def most_of(built: dict) -> float:
    """What no cover of the measured parts gains more than; 0: the build has no bound."""
    bound = built["lower_bound_seconds"]
    return 1 / max(single_rates(built).values()) / bound if bound > 0 else 0


def measure(model: Path, cpu: int, budget: str, seconds: float) -> dict:
    device = ["--devices", f"cpu:{cpu}"]
    with tempfile.TemporaryDirectory() as name:
        packages = {"cover": Path(name) / "cover"}
        built = penstock(
            "build", str(model), *shapes_of(model), *device, "--budget", budget, "-o", str(packages["cover"])
        )
        parts = [(part["backend"], len(part["nodes"])) for part in built["parts"]]
        alone = parts[0][0] if len(parts) == 1 and "as it is" not in built["chosen"] else None
        for backend in singles_of(built):
            if backend == alone:
                continue  # The same plan: what two runs of it differ by is noise.
            packages[backend] = Path(name) / backend
            penstock(
                "split", str(model), *shapes_of(model), *device, "--backend", backend, "-o", str(packages[backend])
            )
        times = race(packages, seconds)
    cover = times.pop("cover")
    if alone:
        times[alone] = cover
    single = min(times, key=lambda name: statistics.median(times[name]))
    row = {
        "model": name_of(model),
        "single": single,
        "single_ms": statistics.median(times[single]) * 1e3,
        "cover_ms": statistics.median(cover) * 1e3,
        "gain": statistics.median(one / other for one, other in zip(times[single], cover, strict=True)),
        "most": most_of(built),
        "parts": parts,
    }
    row["mixed"] = len({backend for backend, _ in row["parts"]}) > 1
    row["bar"] = BARS.get(row["model"], LEAST if row["mixed"] else None)
    return row


def verdict(row: dict) -> str:
    if row["bar"] is None:
        return "-"
    if row["gain"] >= row["bar"]:
        return "met"
    return "proved" if LEAST <= row["gain"] and 0 < row["most"] < row["bar"] else "MISSED"


def print_row(row: dict) -> None:
    cover = " | ".join(f"{backend} {count}" for backend, count in row["parts"]) if row["mixed"] else row["parts"][0][0]
    most = f"{row['most']:9.3f}" if row["most"] else f"{'-':>9}"
    print(f"{row['model']:26}{row['single_ms']:11.3f}{row['cover_ms']:11.3f}{row['gain']:8.3f}{most}  {verdict(row):7}"
          f"{row['single']:13}{cover}", flush=True)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--seconds", type=float, default=10, help="of each row's comparison")
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    print(machine())
    print(
        f"{'network':26}{'single ms':>11}{'cover ms':>11}{'gain':>8}{'at most':>9}  bar    best single  cover (nodes)"
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if options.fresh:
            os.environ["PENSTOCK_COSTS"] = str(Path(folder) / "costs.db")
        for model in models_in(options.models):
            try:
                rows.append(measure(model, options.cpu, options.budget, options.seconds))
                print_row(rows[-1])
            except RuntimeError as error:
                print(f"{model}: {error}", file=sys.stderr)
    gains = [row["gain"] for row in rows if row["mixed"]]
    if gains:
        mean = statistics.geometric_mean(gains)
        print(f"mixed in {len(gains)} of {len(rows)}: {mean:.3f} of the best single backend in the geometric mean")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
