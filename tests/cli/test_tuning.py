"""run --tune: another plan of the same stages takes the place of what runs."""

import re

import numpy as np
import pytest


def test_a_faster_plan_takes_the_place_and_nothing_is_lost(well, chain, cpus, synthetic_backends, tmp_path):
    if len(cpus) < 2:
        pytest.skip("one CPU: there is no other plan")
    # The first stage has nearly all to do: the whole network on each CPU gives almost twice the frames.
    synthetic_backends(a={"seconds": {"conv1": 0.02, "*": 0.0001}})
    package = tmp_path / "lopsided.penstock"
    devices = f"cpu:{cpus[0]},cpu:{cpus[1]}"
    well("split", chain, "--cut", "conv1", "--backend", "synthetic_a", "--devices", devices, "-o", package)
    plain = well("run", package, "--frames", "8", "--output", tmp_path / "plain.npz")
    run = ("run", package, "--frames", "600", "--json", "--output", tmp_path / "tuned.npz", "--tune", "0.02")
    tuned = well(*run)
    assert "tune:" not in plain.err
    assert re.search(r"penstock: tune: 'whole on each of [^']*': \d\.\d+ times the frames", tuned.err), tuned.err
    assert tuned.json["ok"] == tuned.json["frames"] == 600
    assert len(tuned.json["stages"]) == 1
    with np.load(tmp_path / "plain.npz") as before, np.load(tmp_path / "tuned.npz") as after:
        outputs = [name.split("/") for name in before.files]
        assert len(after.files) == 600 * len({name for _, name in outputs})
        for frame, name in outputs:  # Random frames repeat after 16; outputs stand in the order of the frames.
            for number in (int(frame), int(frame) + 592):
                np.testing.assert_allclose(after[f"{number}/{name}"], before[f"{frame}/{name}"], rtol=1e-5)


def test_a_share_that_makes_no_sense_is_refused(penstock, package):
    for share in ("0", "0.9", "much"):
        outcome = penstock("run", package, "--tune", share)
        assert outcome.code == 2 and "--tune" in outcome.err, outcome
