#!/usr/bin/env python3
"""Prints how near a pipeline over three small hosts comes to its plan's bottleneck bound.

    bench/hosts.py [--seconds 20] [--rounds 3] [--json FILE] MODEL.onnx ...

The hosts are network namespaces of one machine with 100, 50 and 25 % of a core and links of 200 Mbit/s, made by the
program that PENSTOCK_TESTBED names (default: ../shared/testbed/hosts; needs root); the caller is a fourth one with a
core and 1 Gbit/s. Each host runs `penstock worker`. For each network: `plan --hosts --measure`, then in turn, --rounds
times, the planned pipeline (`pipeline`), the same with every tensor through the caller (`star`), and the whole
network on the fastest host (`one host`). Printed are medians of frames a second, and of the bound: 1 / period.

What it leaves out: hosts that share a machine share its memory and caches, so that the bound itself is optimistic.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))
import local_hosts  # noqa: E402

PENSTOCK = local_hosts.find_program()
HOSTS = {"a": 100, "b": 50, "c": 25}  # Per cent of a core.
DEVICES = {"a": "cpu:0", "b": "cpu:1", "c": "cpu:1"}  # Of a machine with two; `b` and `c` fit on one.
STAR = {"PENSTOCK_REMOTE_DIRECT": "false"}  # Tensors come back here, and go out again.


def penstock(*words: str, **environment: str) -> dict:
    """Runs one command on the caller's host."""
    command = [*local_hosts.Testbed.on("caller"), PENSTOCK, *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def speed(package: Path, frames: int, **environment: str) -> float:
    return penstock("run", str(package), "--frames", str(frames), **environment)["frames_per_second"]


def measure(model: Path, addresses: dict[str, str], folder: Path, options: argparse.Namespace) -> dict:
    file = folder / "hosts.yaml"
    link = {"bandwidth": "200mbit"}
    # Within a network namespace /sys shows no cgroups: workers cannot tell their quotas.
    hosts = {
        name: {"address": at, "devices": DEVICES[name], "quota": HOSTS[name] / 100, "link": link}
        for name, at in addresses.items()
    }
    caller = {"link": {"bandwidth": "1gbit"}}
    file.write_text(json.dumps({"penstock_hosts": 1, "caller": caller, "hosts": hosts}))  # JSON is YAML.
    planned, whole = folder / f"{model.stem}.penstock", folder / f"{model.stem}-one.penstock"
    answer = penstock("plan", str(model), "--hosts", str(file), "--measure", "-o", str(planned))
    penstock("split", str(model), "--devices", f"{addresses['a']}/cpu:0", "-o", str(whole))
    bound = 1 / answer["period"]
    frames = max(20, int(options.seconds * bound))
    ways = {"pipeline": (planned, {}), "star": (planned, STAR), "one host": (whole, {})}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, (package, environment) in ways.items():
            found[name].append(speed(package, frames, **environment))
    medians = {name: statistics.median(values) for name, values in found.items()}
    return {
        "model": model.stem,
        "bound": bound,
        "proved_bound": 1 / answer["lower_bound"],
        "binding": answer["binding"],
        "stages": [stage["devices"] for stage in answer["stages"]],
        "frames_per_second": medians,
        "of_bound": medians["pipeline"] / bound,
        "rounds": found,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="of each run, about")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    options = parser.parse_args()
    if reason := local_hosts.why_no_testbed():
        print(f"left out: {reason}")
        return 0
    rows = []
    specs = {name: f"{share}:200mbit" for name, share in HOSTS.items()} | {"caller": "100:1gbit"}
    with tempfile.TemporaryDirectory() as name, local_hosts.testbed(specs) as testbed, ExitStack() as workers:
        folder = Path(name)
        addresses = {host: testbed.addresses[host] for host in HOSTS}
        secrets = local_hosts.make_secrets(folder, [address.rpartition(":")[0] for address in addresses.values()])
        os.environ.update(secrets.environment, PENSTOCK_COSTS=str(folder / "costs.db"))
        # Hosts of one busy machine may stand still for longer than a pipeline's patience.
        os.environ.setdefault("PENSTOCK_REMOTE_PATIENCE_MS", "10000")
        for host, address in addresses.items():
            cache, before = folder / f"cache-{host}", testbed.on(host)
            worker = local_hosts.Worker(cache, *secrets.worker_arguments, listen=address, before=before)
            workers.enter_context(worker)
        print(f"{'network':24} {'bound':>8} {'pipeline':>9} {'of bound':>9} {'star':>8} {'one host':>9}  bound by")
        for model in options.models:
            row = measure(model.resolve(), addresses, folder, options)
            rows.append(row)
            speeds = row["frames_per_second"]
            print(
                f"{row['model']:24} {row['bound']:8.2f} {speeds['pipeline']:9.2f} {row['of_bound']:9.3f} "
                f"{speeds['star']:8.2f} {speeds['one host']:9.2f}  {row['binding']}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
