"""Faults under load, one after the other: chaos.py [--seconds N] [--rate N] [--counts-only] [--json FILE] [FAULT...]

Two stages run on two workers, each of which stands by for the other (where workers are killed a third one does, too);
a client pushes frames that hold their numbers, at 60 % of the rate that it reached at most or at --rate, and counts
what comes out.
Of each fault one line is printed: frames, those lost, doubled, wrong without a word (silent), out of order, with an
error (none may have one where another worker stands by); how often it happened, and of these the least and the median
throughput of the best second within 3 s of the return, as a share of the rate; and the longest that a frame took. The
exit code is 1 where a count is wrong, or such a share is less than 0.9. With --counts-only neither throughput decides,
nor frames that are unavailable, and frames may take a minute: beside other work two workers may stand still for
longer than the pipeline's patience.
"""

import argparse
import bisect
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import faults  # noqa: E402
import local_hosts  # noqa: E402
import local_ray  # noqa: E402
import ray_node  # noqa: E402
import slow_reader  # noqa: E402
from scene import Scene  # noqa: E402

MUST_BE_NONE = ("lost", "doubled", "silent", "not in order")
CALM_S = 3.0  # After the last fault.
BACK_WITHIN_S = 3.0
SHARE = 0.9
DEADLINE_S, BUSY_DEADLINE_S = 10.0, 60.0  # Of each frame; on busy machines.
DISK_MIB = 512  # More than all that is sent: nothing older makes room for what is new.


def share_after(done: list[float], rate: float, back: float, until: float) -> float:
    """Of the rate, what the best second of those behind the return was."""
    best, begin = 0.0, back
    while begin + 1 <= until + 1e-9:
        count = bisect.bisect(done, begin + 1) - bisect.bisect(done, begin)
        best = max(best, count / rate)
        begin += 0.05
    return best


def shares(result: dict[str, Any], events: list[tuple[float, float]]) -> list[float]:
    """For each event, unless the next one begins within a second of its end."""
    found = []
    for i, (_, back) in enumerate(events):
        until = back + BACK_WITHIN_S
        if i + 1 < len(events):
            until = min(until, events[i + 1][0])
        if until - back >= 1:
            found.append(share_after(result["done"], result["rate"], back, until))
    return found


def prepare(fault: str, folder: Path, stack: ExitStack) -> Scene:
    scene = Scene(folder, stack, None)
    if fault in faults.ON_TESTBED:
        hosts = {"a": "100:1gbit", "b": "100:1gbit", "caller": "100:1gbit"}
        scene.testbed = stack.enter_context(local_hosts.testbed(hosts))
        addresses = [address.rpartition(":")[0] for address in scene.testbed.addresses.values()]
        scene.secrets = local_hosts.make_secrets(folder, addresses)
    if fault == "certificates":
        scene.secrets = local_hosts.make_secrets(folder, ["127.0.0.1"])
    arguments = []
    if fault == "slow_readers":
        arguments = [f"large={slow_reader.write_constant(folder / 'large.onnx', 1 << 18)}", "--http", "127.0.0.1:0"]
    environment = {}
    if fault == "disk_full":
        arguments = ["--http", "127.0.0.1:0"]
        cache = folder / "cache-b"
        cache.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "none", str(cache)], check=True)
        stack.callback(subprocess.run, ["umount", "-l", str(cache)], check=True)
        environment = {"TMPDIR": str(cache)}
    # Of three that are killed in turn one is left, where the machine needs longer than that to start another.
    for name in ("a", "b", "c") if fault == "killed" else ("a", "b"):
        scene.add_worker(name, *arguments, environment=environment if name == "b" else {})
    return scene


def run(fault: str, seconds: float, rate: float | None, deadline: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-") as name, ExitStack() as stack:
        if fault == faults.RAY:
            return ray_node.run(Path(name), seconds, rate, deadline)
        scene = prepare(fault, Path(name), stack)
        client = scene.start_client(*([] if rate is None else ["--rate", str(rate)]), "--deadline", str(deadline))
        scene.end = time.monotonic() + seconds
        (faults.ON_LOOPBACK | faults.ON_TESTBED)[fault](scene)
        time.sleep(CALM_S)
        result = client.end()
        return {"result": result, "events": scene.events, "problems": scene.problems, "errors_allowed": False}


def judge(found: dict[str, Any], counts_only: bool) -> list[str]:
    """What is not as it must be."""
    result, wrong = found["result"], list(found["problems"])
    counts = result["counts"]
    wrong += [f"{counts[name]} {name}" for name in MUST_BE_NONE if counts.get(name)]
    kinds = set(counts) - {"right", *MUST_BE_NONE}
    allowed = {"Unavailable"} if found["errors_allowed"] or counts_only else set()
    if kinds - allowed:
        wrong.append(f"errors: {result['errors']}")
    if not counts.get("right"):
        wrong.append("no frame came out right")
    if not found["events"]:
        wrong.append("the fault has not happened: more --seconds are needed")
    found["shares"] = shares(result, found["events"])
    if not counts_only and any(share < SHARE for share in found["shares"]):
        wrong.append(f"throughput after the return: {min(found['shares']):.2f} of the rate")
    return wrong


def print_row(fault: str, found: dict[str, Any], wrong: list[str]) -> None:
    counts = found["result"]["counts"]
    none = " ".join(f"{counts.get(name, 0):8}" for name in MUST_BE_NONE)
    errors = sum(counts.values()) - counts.get("right", 0) - sum(counts.get(name, 0) for name in MUST_BE_NONE)
    after = found["shares"]
    low = f"{min(after):5.2f} {statistics.median(after):6.2f}" if after else "    -      -"
    longest, rate = found["result"]["longest_ms"], found["result"]["rate"]
    print(
        f"{fault:14} {found['result']['pushed']:8} {rate:7.0f} {none} {errors:7} {len(found['events']):6} "
        f"{low} {longest:9.0f}  {'; '.join(wrong) or 'holds'}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300, help="of each fault; default: 300")
    parser.add_argument("--rate", type=float, help="frames a second; default: 60 % of the most that it can do")
    parser.add_argument("--counts-only", action="store_true", help="for busy machines")
    parser.add_argument("--json", type=Path, help="what was found, for programs")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"of {', '.join(faults.NAMES)}; default: all")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that hosts, workers and mounts are taken down
    if strange := set(options.faults) - set(faults.NAMES):
        parser.error(f"unknown fault {sorted(strange)}: expected some of {', '.join(faults.NAMES)}")
    print(
        f"{'fault':14} {'frames':>8} {'a second':>8} {'lost':>7} {'doubled':>8} {'silent':>8} {'unorder':>8} "
        f"{'errors':>7} {'times':>6} {'least':>5} {'median':>6} {'most ms':>9}"
    )
    deadline = BUSY_DEADLINE_S if options.counts_only else DEADLINE_S
    rows: dict[str, Any] = {}
    failed = False
    for fault in options.faults or faults.NAMES:
        reason = local_ray.why_not() if fault == faults.RAY else faults.why_not(fault)
        found = {}
        try:
            found = {} if reason else run(fault, options.seconds, options.rate, deadline)
        except local_hosts.NoTestbed as error:
            reason = str(error)
        if reason:
            print(f"{fault:14} left out: {reason}", flush=True)
            rows[fault] = {"left_out": reason}
            continue
        wrong = judge(found, options.counts_only)
        print_row(fault, found, wrong)
        failed = failed or bool(wrong)
        result = {key: value for key, value in found["result"].items() if key not in ("done", "failed")}
        rows[fault] = {**result, "events": len(found["events"]), "shares": found["shares"], "wrong": wrong}
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
