"""run --tune: another plan of the same stages takes the place of what runs."""

import json
import re
import signal
import subprocess

import pytest


@pytest.mark.sweep(of=6)
def test_a_faster_plan_takes_the_place_and_nothing_is_lost(program, well, chain, cpus, synthetic_backends, tmp_path):
    if len(cpus) < 2:
        pytest.skip("one CPU: there is no other plan")
    # The first stage has nearly all to do: the whole network on each CPU gives almost twice the frames.
    synthetic_backends(a={"seconds": {"conv1": 0.02, "*": 0.0001}})
    package = tmp_path / "lopsided.penstock"
    devices = f"cpu:{cpus[0]},cpu:{cpus[1]}"
    well("split", chain, "--cut", "conv1", "--backend", "synthetic_a", "--devices", devices, "-o", package)
    command = [program, "run", package, "--frames", "1000000", "--json", "--tune", "0.02"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        told = next((line for line in process.stderr if "tune: " in line), "it ended")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert re.search(r"penstock: tune: 'whole on each of [^']*': [\d.]+ times the frames", told), told
    assert process.returncode == 130, err
    report = json.loads(out)
    assert report["ok"] == report["frames"] > 0, report
    assert len(report["stages"]) == 1


def test_a_share_that_makes_no_sense_is_refused(penstock, package):
    for share in ("0", "0.9", "much"):
        outcome = penstock("run", package, "--tune", share)
        assert outcome.code == 2, outcome
        assert f"--tune: expected a number from 0.001 to 0.5, found '{share}'" in outcome.err, outcome
