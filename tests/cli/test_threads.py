"""Where the threads of a running pipeline may run, as the kernel tells it."""

import os
import signal
import subprocess

import pytest


@pytest.mark.parametrize("count", [1, 2])
def test_stages_are_pinned_and_the_callers_thread_is_not(program, well, chain, tmp_path, count):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    device = "cpu:" + "+".join(map(str, cpus[:count]))
    well("split", chain, "--cut", "1", "--devices", device, "-o", tmp_path / "p")
    with subprocess.Popen(
        [program, "run", tmp_path / "p", "--rate", "50", "--frames", "100000", "-v"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while "stages started" not in process.stderr.readline():
            pass
        masks = {int(task): os.sched_getaffinity(int(task)) for task in os.listdir(f"/proc/{process.pid}/task")}
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert masks.pop(process.pid) == set(cpus)
    pinned = [mask for mask in masks.values() if mask == set(cpus[:count])]
    assert len(pinned) >= 2 * count  # Of each stage: its worker, and the engine's further threads.
