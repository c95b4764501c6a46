"""Where the threads of a running pipeline may run, as the kernel tells it."""

import os
import signal

import pytest


@pytest.mark.parametrize("count", [1, 2])
def test_stages_are_pinned_and_the_callers_thread_is_not(running, well, chain, tmp_path, count):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    device = "cpu:" + "+".join(map(str, cpus[:count]))
    well("split", chain, "--cut", "1", "--devices", device, "-o", tmp_path / "p")
    with running(tmp_path / "p") as process:
        masks = {int(task): os.sched_getaffinity(int(task)) for task in os.listdir(f"/proc/{process.pid}/task")}
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert masks.pop(process.pid) == set(cpus)
    pinned = [mask for mask in masks.values() if mask == set(cpus[:count])]
    assert len(pinned) >= 2 * count  # Of each stage: its worker, and the engine's further threads.
