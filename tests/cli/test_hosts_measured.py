"""`penstock devices --hosts` and `plan --hosts --measure`, with workers of ours on this machine as the hosts."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from conftest import save, value
from onnx import helper


@contextmanager
def worker(program: Path, cache: Path, *arguments: str, **environment: str) -> Iterator[str]:
    """The address of one that runs."""
    command = [str(program), "worker", "--listen", "127.0.0.1:0", "--cache", str(cache), *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | environment
    ) as process:
        try:
            said = ""
            for line in process.stdout:
                said += line
                if "gRPC on " in line:
                    yield line.split("gRPC on ")[1].split()[0]
                    return
            raise AssertionError(f"the worker ended: {said}")
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture(scope="module")
def addresses(program, tmp_path_factory) -> Iterator[list[str]]:
    if "\n  worker " not in subprocess.run([str(program), "--help"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("this build has no 'penstock worker'")
    folder = tmp_path_factory.mktemp("workers")
    with ExitStack() as stack:
        yield [stack.enter_context(worker(program, folder / name)) for name in ("a", "b")]


@pytest.fixture
def hosts(addresses, cpu, tmp_path) -> Path:
    a, b = addresses
    file = tmp_path / "hosts.yaml"
    file.write_text(
        "penstock_hosts: 1\nhosts:\n"
        f'  a: {{address: "{a}", devices: "cpu:{cpu}"}}\n  b: {{address: "{b}", devices: "cpu:{cpu}"}}\n'
    )
    return file


def costs(tmp_path: Path) -> dict[str, str]:
    return {"PENSTOCK_COSTS": str(tmp_path / "costs.db")}


@pytest.mark.sweep(of=3)
def test_hosts_and_the_links_between_them_are_shown(well, hosts, tmp_path):
    shown = well("devices", "--hosts", hosts, "--json", env=costs(tmp_path)).json
    assert [host["name"] for host in shown["hosts"]] == ["a", "b"]
    for host in shown["hosts"]:
        assert host["reached"] is True
        assert host["cpus"]
        assert any(backend["name"] == "onnxruntime" for backend in host["backends"])
        assert host["memory_bytes"] >= host["memory_left_bytes"] > 0
    ends = {(link["from"], link["to"]) for link in shown["links"]}
    assert ends == {("(here)", "a"), ("a", "(here)"), ("(here)", "b"), ("b", "(here)"), ("a", "b"), ("b", "a")}
    assert all(link["bytes_per_second"] > 0 and link["latency_seconds"] > 0 for link in shown["links"])
    assert shown["failed"] == []
    for seen in shown["sharing"]:  # How much they share on this machine is not known.
        assert seen["together_bytes_per_second"] > 0 and len(set(seen["peers"])) == 2
    assert "MB/s" in well("devices", "--hosts", hosts, env=costs(tmp_path)).out


@pytest.mark.sweep(of=3)
def test_a_host_that_is_not_there_is_told_beside_the_others(penstock, hosts, tmp_path):
    hosts.write_text(hosts.read_text() + '  gone: {address: "127.0.0.1:1", cpus: 1}\n')
    outcome = penstock("devices", "--hosts", hosts, "--json", env=costs(tmp_path))
    assert outcome.code == 1
    a, _, gone = outcome.json["hosts"]
    assert (a["reached"], gone["reached"]) == (True, False)
    assert "127.0.0.1:1" in gone["error"]


@pytest.mark.sweep(of=3)
def test_what_was_measured_on_a_host_is_planned_with_and_kept(well, hosts, chain, tmp_path):
    package = tmp_path / "p.penstock"
    command = ["plan", chain, "--hosts", hosts, "--measure", "--measure-seconds", "4", "--json", "--deadline", "2"]
    planned = well(*command, "-o", package, env=costs(tmp_path)).json
    plan = json.loads((package / "plan.json").read_text())
    assert all(stage["devices"][0].startswith("127.0.0.1:") for stage in plan["stages"])
    assert planned["period"] > 0
    kept = json.loads(well("costs", "export", env=costs(tmp_path)).out)
    assert json.dumps(kept).count("the network") == 1
    well(*command, env=costs(tmp_path))
    after = json.loads(well("costs", "export", env=costs(tmp_path)).out)
    # Known parts were not measured again; on a busy machine there was no time for all of them before.
    assert all(part in after["parts"] for part in kept["parts"])


@pytest.mark.sweep(of=3)
def test_a_build_measures_races_and_judges_on_the_hosts(well, hosts, cpu, chain, tmp_path):
    more = f'  gone: {{address: "127.0.0.1:1", cpus: 1}}\ncaller: {{devices: "cpu:{cpu}"}}\n'
    hosts.write_text(hosts.read_text() + more)
    package = tmp_path / "p.penstock"
    command = ["build", chain, "--hosts", hosts, "--standby", "--budget", "8s", "--backends", "onnxruntime", "--json"]
    report = well(*command, "-o", package, env=costs(tmp_path)).json
    names = [way["name"] for way in report["ways"] if not way["failure"]]
    assert any("stage" in name for name in names)
    simple = [way for way in report["simple"] if way["name"].startswith("the whole network on ")]
    assert any("each device" in way["name"] for way in simple)
    assert any("127.0.0.1:" in way["name"] for way in simple)
    best = max(way["frames_per_second"] for way in report["ways"] if not way["failure"])
    chosen = next(way for way in report["ways"] if way["name"] == report["chosen"])
    assert chosen["frames_per_second"] >= 0.95 * best  # What is within noise of the best is not replaced.
    assert chosen["worst_ratio"] <= 1
    assert any("127.0.0.1:1" in note for note in report["notes"])  # Left out.
    assert any("caller: devices" in note for note in report["notes"])
    assert all(node["seconds"] > 0 for node in report["nodes"])
    trials = report["parts"][0]["trials"]
    assert [trial["backend"] for trial in trials] == ["onnxruntime"] and trials[0]["seconds"] > 0
    plan = json.loads((package / "plan.json").read_text())
    assert all(device.startswith("127.0.0.1:") for stage in plan["stages"] for device in stage["devices"])
    assert well("verify", package, "--model", chain, "--json").json["ok"] is True
    assert report["chosen"] in well("explain", package).out


@pytest.mark.sweep(of=3)
def test_hosts_are_asked_however_short_the_time(well, hosts, chain, tmp_path):
    command = ["build", chain, "--hosts", hosts, "--budget", "0.01s", "--backends", "onnxruntime", "--json"]
    report = well(*command, "-o", tmp_path / "p.penstock", env=costs(tmp_path)).json
    trials = report["parts"][0]["trials"]
    assert [trial["backend"] for trial in trials] == ["onnxruntime"] and trials[0]["seconds"] > 0


@pytest.fixture
def app(program, tmp_path) -> dict:
    """y = chain(2 x), by a function and a network."""
    library = program.resolve().parents[1] / "lib/tests/libpenstock_test_functions.so"
    if not library.exists():
        pytest.skip(f"no {library.name} beside the program: build the tests")
    nodes = [helper.make_node("Mul", ["x", "two"], ["m"], "mul"), helper.make_node("Relu", ["m"], ["y"], "relu")]
    double = save(tmp_path, "double", nodes, [value("x", [4])], [value("y", [4])], {"two": np.array([2], np.float32)})
    scale = {"function": str(library), "name": "scale", "inputs": {"x": "net.y"}, "options": {"factor": 3}}
    nodes = {"net": {"network": double.name, "inputs": {"x": "image"}}, "scale": scale}
    nodes["again"] = {"network": double.name, "inputs": {"x": "scale.y"}}
    return {"penstock_app": 1, "inputs": {"image": "f32[4]"}, "nodes": nodes, "outputs": {"result": "again.y"}}


@pytest.mark.sweep(of=6)
def test_networks_of_an_application_are_built_over_the_hosts(well, hosts, app, tmp_path):
    hosts.write_text(hosts.read_text() + '  gone: {address: "127.0.0.1:1", cpus: 1}\n')
    file, package = tmp_path / "app.yaml", tmp_path / "p.penstock"
    file.write_text(json.dumps(app))
    command = ["build", file, "--hosts", hosts, "--standby", "--budget", "10s", "--backends", "onnxruntime", "--json"]
    report = well(*command, "-o", package, env=costs(tmp_path)).json
    over = next(way for way in report["ways"] if way["name"] == "each network as built by itself")
    assert over["failure"] == "" and over["worst_ratio"] <= 1 and over["frames_per_second"] > 0
    stages = dict(stage.split(" on ") for stage in over["what"].split(" | "))
    assert {name.split("/")[0] for name in stages} == {"net", "scale", "again"}
    for name, device in stages.items():
        assert device.startswith("127.0.0.1:") == (name != "scale")  # Functions run here.
    simple = {way["name"] for way in report["simple"]}
    assert {"as it is written", "each network on all CPUs"} & simple  # Of one CPU they are the same.
    for network in ("net", "again"):
        assert any(note.startswith(f"network '{network}': left out:") for note in report["notes"])
    assert well("verify", package, "--json").json["ok"] is True
    well("run", package, "--frames", "3")


def test_an_application_with_nothing_to_build_over_hosts_is_refused(penstock, hosts, app, cpu, tmp_path):
    for network in ("net", "again"):
        app["nodes"][network]["devices"] = f"cpu:{cpu}"
    file = tmp_path / "app.yaml"
    file.write_text(json.dumps(app))
    outcome = penstock("build", file, "--hosts", hosts, "-o", tmp_path / "p", env=costs(tmp_path))
    assert outcome.code == 1
    assert "no network is left to be built over hosts" in outcome.error
    assert not (tmp_path / "p").exists()


def test_a_build_where_no_host_answers_says_so(penstock, hosts, chain, tmp_path):
    hosts.write_text('penstock_hosts: 1\nhosts:\n  gone: {address: "127.0.0.1:1", cpus: 1}\n')
    outcome = penstock("build", chain, "--hosts", hosts, "-o", tmp_path / "p", env=costs(tmp_path))
    assert outcome.code == 1
    assert "no host can be reached" in outcome.error and "127.0.0.1:1" in outcome.error
    assert not (tmp_path / "p").exists()


@pytest.mark.sweep(of=3)
def test_a_build_over_hosts_of_unlike_connections_is_refused(penstock, addresses, chain, tmp_path):
    (tmp_path / "token").write_text("word\n")
    hosts = tmp_path / "hosts.yaml"
    a, b = addresses
    hosts.write_text(
        "penstock_hosts: 1\nhosts:\n"
        f'  a: {{address: "{a}", cpus: 1}}\n  b: {{address: "{b}", cpus: 1, token_file: token}}\n'
    )
    outcome = penstock("build", chain, "--hosts", hosts, "-o", tmp_path / "p", env=costs(tmp_path))
    assert outcome.code == 1
    assert "hosts 'a' and 'b' differ" in outcome.error and "'defaults'" in outcome.error


@pytest.mark.parametrize("option", [["--most-parts", "3"], ["--devices", "cpu:0"]])
def test_options_that_a_build_over_hosts_has_no_use_for_are_refused(penstock, hosts, chain, tmp_path, option):
    outcome = penstock("build", chain, "--hosts", hosts, "-o", tmp_path / "p", *option, env=costs(tmp_path))
    assert outcome.code in (1, 2)
    assert "--hosts" in outcome.err or "over hosts" in outcome.err


@pytest.mark.sweep(of=3)
def test_operators_of_the_users_own_go_to_workers_that_allow_them(
    well, penstock, program, cpu, hosts, twice, library, tmp_path
):
    command = ["build", twice, "--custom-ops", library, "--budget", "6s", "--backends", "onnxruntime", "--json"]
    refused = penstock(*command, "--hosts", hosts, "-o", tmp_path / "none", env=costs(tmp_path))
    assert refused.code == 1
    assert "native code" in refused.error and not (tmp_path / "none").exists()
    package = tmp_path / "p.penstock"
    with worker(program, tmp_path / "cache", "--allow-native-code") as address:
        allowed = tmp_path / "allowed.yaml"
        allowed.write_text(f'penstock_hosts: 1\nhosts:\n  a: {{address: "{address}", devices: "cpu:{cpu}"}}\n')
        report = well(*command, "--hosts", allowed, "-o", package, env=costs(tmp_path)).json
        assert report["chosen"]
        assert (package / "custom_ops" / library.name).exists()
        assert well("verify", package, "--model", twice, "--json").json["ok"] is True


def test_a_worker_of_this_machine_may_share_the_database(well, program, cpu, chain, tmp_path):
    with worker(program, tmp_path / "cache", **costs(tmp_path)) as address:
        hosts = tmp_path / "hosts.yaml"
        hosts.write_text(f'penstock_hosts: 1\nhosts:\n  a: {{address: "{address}", devices: "cpu:{cpu}"}}\n')
        command = ["plan", chain, "--hosts", hosts, "--measure", "--measure-seconds", "4", "--deadline", "1"]
        well(*command, env=costs(tmp_path))


@pytest.mark.sweep(of=3)
def test_the_plan_runs_on_the_hosts(well, hosts, chain, tmp_path):
    package = tmp_path / "p.penstock"
    command = ["plan", chain, "--hosts", hosts, "--measure", "--measure-seconds", "4", "--deadline", "2", "-o", package]
    well(*command, env=costs(tmp_path))
    assert well("verify", package, "--model", chain, "--json").json["ok"] is True
