#!/usr/bin/env python3
"""Prints, for each network, a pipeline with the batch that `split --batch auto` chose beside one without.

    bench/batches.py [--seconds 2] [--rounds 7] [--bar 0.98] MODEL.onnx|FOLDER ...

Both have one replica on one CPU and run in turn in one process (streams_bench with one stream), so
only the ratio counts; its median and quartiles over the rounds are printed. Networks whose stage
keeps one frame a call are the same pipeline twice: they are named, not measured. Ends with 1 where
a ratio is below the bar. Needs build/release/bin/penstock and streams_bench.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import PENSTOCK, name_of, shapes_of

STREAMS_BENCH = os.environ.get("PENSTOCK_STREAMS_BENCH", str(Path(PENSTOCK).parent / "streams_bench"))
# Inputs that networks are run with one value of.
CONSTANTS = {"silero_vad_16k_op15": {"sr": "16000"}}


def split(model: Path, package: str, *more: str) -> dict:
    bound = [a for key, value in CONSTANTS.get(name_of(model), {}).items() for a in ("--constant", f"{key}={value}")]
    command = [PENSTOCK, "split", str(model), *shapes_of(model), *bound, "--devices", "cpu:0", *more, "-o", package]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def frames_of(package: str) -> int:
    """Most frames that one call of its one stage takes."""
    plan = json.loads((Path(package) / "plan.json").read_text())
    return plan["stages"][0].get("batch", {}).get("frames", 1)


def measure(model: Path, seconds: float, rounds: int, bar: float) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        chosen, single = f"{folder}/chosen.penstock", f"{folder}/single.penstock"
        split(model, chosen, "--batch", "auto")
        batch = frames_of(chosen)
        if batch == 1:
            print(f"{name_of(model)}: keeps one frame a call", flush=True)
            return True
        split(model, single)
        command = [STREAMS_BENCH, chosen, single, "1", str(seconds), str(rounds), str(bar)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode > 1:
            raise RuntimeError(done.stderr.strip())
        found = re.search(r"ratio (\S+) \(quartiles (\S+) to (\S+)\)", done.stdout)
        met = "met" if done.returncode == 0 else "MISSED"
        print(f"{name_of(model)}: {batch} frames: {found[1]} (quartiles {found[2]} to {found[3]}), {met}", flush=True)
        return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=2, help="of each side in each round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--bar", type=float, default=0.98)
    given = parser.parse_args()
    models = [found for path in given.models for found in (sorted(path.rglob("*.onnx")) if path.is_dir() else [path])]
    met = True
    for model in models:
        try:
            met &= measure(model, given.seconds, given.rounds, given.bar)
        except RuntimeError as error:
            met = False
            print(f"{name_of(model)}: {error}", flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
