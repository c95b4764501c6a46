#!/usr/bin/env python3
"""Prints what it costs a pipeline that its page is open: frames a second with the page, over those without.

    bench/watching.py FILE [--rounds N] [--seconds S]

FILE is what `penstock run` takes. Each round runs it twice, without and with --page, in turn, the second time with a
client that reads all that the page listens to, as fast as it comes; which of the two comes first changes from round to
round. Each run streams as many random frames as take about S seconds. The ratio is the median of the rounds, with its
quartiles.
Left out: what a browser takes that draws the page on the same machine."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PENSTOCK = Path(os.environ.get("PENSTOCK_BIN", ROOT / "build/release/bin/penstock"))


def listen(url: str) -> None:
    """Until the end."""
    try:
        with urllib.request.urlopen(url + "events", timeout=60) as stream:
            while stream.read1(1 << 16):
                pass
    except OSError:
        pass  # It ended before.


def rate(file: str, frames: int, page: bool) -> float:
    """Frames a second."""
    command = [PENSTOCK, "run", file, "--frames", str(frames), "--json"]
    if page:
        command += ["--page", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if page:
            url = next(found[1] for line in process.stderr if (found := re.search(r"page at (\S+)", line)))
            threading.Thread(target=listen, args=(url,), daemon=True).start()
        out, err = process.communicate()
    if process.returncode:
        sys.exit(err)
    return json.loads(out)["frames_per_second"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=3)
    options = parser.parse_args()
    frames = max(100, int(options.seconds * rate(options.file, 2000, False)))
    ratios = []
    for i in range(options.rounds):
        rates = {page: rate(options.file, frames, page) for page in ((False, True) if i % 2 else (True, False))}
        ratios.append(rates[True] / rates[False])
        print(f"round {i}: {rates[False]:.0f} without, {rates[True]:.0f} with the page: {ratios[-1]:.4f}", flush=True)
    low, median, high = statistics.quantiles(ratios, n=4)
    print(f"with over without: {median:.4f} ({low:.4f} to {high:.4f}), {options.rounds} rounds of {frames} frames")


if __name__ == "__main__":
    main()
