"""`penstock plan --hosts`: hosts that need not be there, and links that the file tells of."""

import json
import socket
from pathlib import Path

import pytest

HOSTS = """\
penstock_hosts: 1
caller:
  link: {bandwidth: 1gbit, latency: 0.2ms}
  host_cpus: cpu:0
hosts:
  fast: {address: "10.0.0.1:8500", cpus: 1, speed: 0.001, link: {bandwidth: 200mbit, latency: 0.2ms}}
  half: {address: "10.0.0.2:8500", cpus: 1, speed: 0.001, quota: 0.5, link: {bandwidth: 200mbit, latency: 0.2ms}}
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    file = tmp_path / "hosts.yaml"
    file.write_text(HOSTS)
    return file


def test_the_plan_has_stages_on_the_hosts_and_tells_what_binds(well, chain, hosts, tmp_path):
    package = tmp_path / "p.penstock"
    answer = well("plan", chain, "--hosts", hosts, "--standby", "-o", package, "--json", "--deadline", 2).json
    plan = json.loads((package / "plan.json").read_text())
    devices = [stage["devices"] for stage in plan["stages"]]
    assert all(device[0].startswith("10.0.0.") for device in devices)
    assert all(stage["host_cpus"] == [0] for stage in plan["stages"])
    for stage in plan["stages"]:
        assert stage["standby"][0].split("/")[0] != stage["devices"][0].split("/")[0]
    assert plan["prediction"]["period_seconds"] == pytest.approx(answer["period"])
    assert answer["lower_bound"] <= answer["period"] * (1 + 1e-9)
    assert answer["binding"]
    busiest = max(link["load"] for link in answer["links"])
    assert busiest <= answer["period"] * (1 + 1e-9)


def test_a_package_for_hosts_that_are_not_there_is_a_warning(well, chain, hosts, tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # And listens not: who connects is refused.
        gone = f"127.0.0.1:{silent.getsockname()[1]}"
        hosts.write_text(HOSTS.replace("10.0.0.1:8500", gone).replace("10.0.0.2:8500", gone.replace("0.0.1", "0.0.2")))
        outcome = well("plan", chain, "--hosts", hosts, "-o", tmp_path / "p.penstock", "--deadline", 1)
        assert "nothing answers at 127.0.0." in outcome.err
        assert "nothing answers" not in well("plan", chain, "--hosts", hosts, "--deadline", 1).err


def test_a_plan_tells_what_a_run_needs_to_reach_the_hosts(well, chain, hosts, tmp_path):
    (tmp_path / "token").write_text("word\n")
    shared = HOSTS.replace("caller:", "defaults: {token_file: token}\ncaller:")
    hosts.write_text(shared)
    line = ["plan", chain, "--hosts", hosts, "-o", tmp_path / "p.penstock", "--deadline", 1]
    assert f"run it with --backend-option remote:token_file={tmp_path / 'token'}\n" in well(*line).out
    hosts.write_text(shared.replace("quota: 0.5", "quota: 0.5, tls: true"))
    said = well(*line).out
    assert "run it with" not in said
    assert "hosts 'fast' and 'half' differ" in said and "'defaults'" in said


def test_a_plan_takes_options_of_the_way_to_other_machines_and_writes_none(penstock, well, chain, hosts, tmp_path):
    (tmp_path / "token").write_text("word\n")
    hosts.write_text(HOSTS.replace("caller:", "defaults: {token_file: token}\ncaller:"))
    package = tmp_path / "p.penstock"
    options = ["--backend-option", "remote:patience_ms=4000", "--backend-option", "remote:token_file=other"]
    told = well("plan", chain, "--hosts", hosts, *options, "-o", package, "--deadline", 1)
    assert "run it with --backend-option remote:patience_ms=4000 --backend-option remote:token_file=other\n" in told.out
    assert "patience" not in (package / "plan.json").read_text()
    refused = penstock("plan", chain, "--devices", "cpu:0", *options, "-o", package)
    assert "expected options of backend 'onnxruntime', found one of 'remote'" in refused.error


def test_a_plan_asks_hosts_by_the_options_of_the_way(well, chain, hosts):
    hosts.write_text(HOSTS.replace("10.0.0.", "127.0.0."))
    options = ["--backend-option", "remote:token_file=/nothing/here"]
    told = well("plan", chain, "--hosts", hosts, "--measure", *options, "--deadline", 1).err
    assert "'/nothing/here'" in told


def test_a_build_asks_hosts_by_the_options_of_the_way(penstock, chain, hosts):
    hosts.write_text(HOSTS.replace("10.0.0.", "127.0.0."))
    options = ["--backend-option", "remote:token_file=/nothing/here", "--budget", "1s"]
    assert "'/nothing/here'" in penstock("build", chain, "--hosts", hosts, *options, "-o", "never").error


def test_a_slower_link_is_what_binds_then(well, chain, hosts):
    hosts.write_text(HOSTS.replace("link: {bandwidth: 1gbit", "link: {bandwidth: 1kbit"))
    answer = well("plan", chain, "--hosts", hosts, "--json", "--deadline", 2).json
    assert answer["binding"].startswith("link of the caller")


def test_links_of_which_nothing_is_said_are_named(well, chain, hosts, tmp_path):
    hosts.write_text('penstock_hosts: 1\nhosts:\n  a: {address: "a:1", cpus: 1}\n')
    unmeasured = {"PENSTOCK_COSTS": str(tmp_path / "costs.db")}
    outcome = well("plan", chain, "--hosts", hosts, "--deadline", 1, env=unmeasured)
    assert "the caller to 'a'" in outcome.err


def test_costs_that_cannot_be_read_are_told(well, chain, hosts, tmp_path):
    (tmp_path / "costs.db").write_bytes(b"x" * 5000)
    outcome = well("plan", chain, "--hosts", hosts, "--deadline", 1, env={"PENSTOCK_COSTS": str(tmp_path / "costs.db")})
    (line,) = [line for line in outcome.err.splitlines() if "costs.db" in line]
    assert "not a cost database, or damaged" in line and "what was measured of the links is not known" in line


def test_what_is_wrong_in_the_file_is_told_with_its_line(penstock, chain, hosts):
    hosts.write_text(HOSTS.replace("200mbit", "200"))
    assert "hosts.yaml:6: hosts.fast.link.bandwidth: expected a bandwidth" in (
        penstock("plan", chain, "--hosts", hosts).error
    )


@pytest.mark.parametrize("option", [["--devices", "cpu:0"], ["--what-if"], ["--memory", "1e9"]])
def test_options_that_the_file_answers_are_refused(penstock, chain, hosts, option):
    assert "does not go with --hosts" in penstock("plan", chain, "--hosts", hosts, *option).error


def test_devices_of_other_hosts_are_taken_by_a_split_by_hand(well, chain, tmp_path):
    package = tmp_path / "p.penstock"
    well("split", chain, "--devices", "10.0.0.1:8500/cpu:0", "-o", package)
    plan = json.loads((package / "plan.json").read_text())
    assert plan["stages"][0]["devices"] == ["10.0.0.1:8500/cpu:0"]


def test_a_split_takes_options_of_the_way_to_other_machines_and_writes_none(penstock, well, chain, tmp_path):
    package = tmp_path / "p.penstock"
    patience = ["--backend-option", "remote:patience_ms=4000"]
    for where in (["--devices", "10.0.0.1:8500/cpu:0"], ["--pin", "conv1=10.0.0.1:8500/cpu:0"]):
        told = well("split", chain, *where, *patience, "-o", package).err
        assert "--backend-option remote:patience_ms: not in the package" in told
        assert "patience" not in (package / "plan.json").read_text()
    refused = penstock("split", chain, "--devices", "cpu:0", *patience, "-o", package)
    assert "expected options of backend 'onnxruntime', found one of 'remote'" in refused.error
