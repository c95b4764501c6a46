"""What links share, as `penstock devices --hosts` sees it: hosts of a testbed, each with a cable of limited rate."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import local_hosts  # noqa: E402

# Megabits a second: little work for the CPU, and room for two slow cables in the fast one.
RATES = {"a": 40, "b": 40, "caller": 200}
FAR, UPLINK = ("c", "d"), 80
"""Two hosts behind a switch of their own, and what it reaches the others by."""


def put_behind_an_uplink(hosts: tuple[str, ...], names: list[str], rate: int) -> None:
    """Moves the hosts' cables to a second switch, in the namespace of the testbed's."""
    switch = ["ip", "-n", "pst-switch", "link"]
    commands = [
        [*switch, "add", "br1", "type", "bridge"],
        [*switch, "set", "br1", "up"],
        [*switch, "add", "up0", "type", "veth", "peer", "name", "up1"],
        [*switch, "set", "up0", "master", "br0", "up"],
        [*switch, "set", "up1", "master", "br1", "up"],
        *([*switch, "set", f"p{names.index(host) + 1}", "master", "br1"] for host in hosts),
    ]
    shape = ["root", "tbf", "rate", f"{rate}mbit", "burst", "256kb", "latency", "50ms"]
    commands += [["tc", "-n", "pst-switch", "qdisc", "add", "dev", end, *shape] for end in ("up0", "up1")]
    for command in commands:
        subprocess.run(command, check=True)


def survey(program: Path, folder: Path, rates: dict[str, int], far: tuple[str, ...] = ()) -> tuple[dict, str]:
    """What the caller's host sees, as JSON; and in words."""
    if reason := local_hosts.why_no_testbed():
        pytest.skip(reason)
    os.environ.setdefault("PENSTOCK_BIN", str(program))
    with ExitStack() as stack:
        specs = {name: f"100:{rate}mbit" for name, rate in rates.items()}
        try:
            testbed = stack.enter_context(local_hosts.testbed(specs))
        except local_hosts.NoTestbed as error:
            pytest.skip(str(error))
        if far:
            put_behind_an_uplink(far, list(rates), UPLINK)
        addresses = {name: testbed.addresses[name] for name in rates if name != "caller"}
        secrets = local_hosts.make_secrets(folder, [address.rpartition(":")[0] for address in addresses.values()])
        for name, address in addresses.items():
            cache, before = folder / f"cache-{name}", testbed.on(name)
            stack.enter_context(local_hosts.Worker(cache, *secrets.worker_arguments, listen=address, before=before))
        hosts = {name: {"address": address, "cpus": 2} for name, address in addresses.items()}
        file = folder / "hosts.yaml"
        file.write_text(json.dumps({"penstock_hosts": 1, "defaults": secrets.remote_options, "hosts": hosts}))
        command = [*testbed.on("caller"), str(program), "devices", "--hosts", str(file)]
        environment = {**os.environ, "PENSTOCK_COSTS": str(folder / "costs.db")}
        told = []
        for more in (["--json"], []):
            done = subprocess.run([*command, *more], capture_output=True, text=True, env=environment, check=False)
            assert done.returncode == 0, done.stderr + done.stdout
            told.append(done.stdout)
        return json.loads(told[0]), told[1]


@pytest.fixture(scope="module")
def surveyed(program: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict, str]:
    return survey(program, tmp_path_factory.mktemp("sharing"), RATES)


def test_hosts_of_one_cable_are_seen_to_share_it(surveyed):
    found, _ = surveyed
    seen = {(each["host"], each["direction"]): each for each in found["sharing"]}
    assert set(seen) == {(host, way) for host in ("a", "b", "(here)") for way in ("out", "in")}
    for (host, _), each in seen.items():
        assert each["shared"] is (host != "(here)"), each
        for peer in each["peers"]:
            assert peer != host


def test_what_is_shared_carries_what_its_cable_does(surveyed):
    found, _ = surveyed
    for each in found["sharing"]:
        if each["shared"]:  # What surrounds the bytes takes a few per cent.
            assert 0.7 <= each["together_bytes_per_second"] / (RATES[each["host"]] * 1e6 / 8) <= 1.25


def test_it_is_told_in_words_too(surveyed):
    _, told = surveyed
    assert "a, out to " in told and "together: one wire" in told
    assert "(here), out to " in told and "together: not shared" in told


def test_hosts_behind_one_uplink_are_seen_to_share_it(program, tmp_path):
    found, told = survey(program, tmp_path, {"a": 400, "c": 400, "d": 400, "caller": 400}, FAR)
    shared = {frozenset(each["hosts"]): each for each in found["uplinks"] if each["shared"]}
    near, far = frozenset(["(here)", "a"]), frozenset(FAR)
    # What goes out of one side is what comes in to the other: it is told once.
    assert set(shared) == {near, far}, found["uplinks"]
    for hosts, each in shared.items():
        assert each["direction"] == "out" and frozenset(each["peers"]) == (near | far) - hosts
        assert 0.7 <= each["together_bytes_per_second"] / (UPLINK * 1e6 / 8) <= 1.25
    assert not any(each["shared"] for each in found["sharing"])
    assert "together: one uplink" in told
