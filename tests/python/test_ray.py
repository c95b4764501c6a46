"""penstock.ray over several raylets of one machine; what stands in for `penstock worker` where only placing counts."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock.ray
import pytest
from penstock.ray import WorkerSpec

import penstock

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
import local_hosts  # noqa: E402
import local_ray  # noqa: E402

if reason := local_ray.why_not():
    pytest.skip(reason, allow_module_level=True)
import ray  # noqa: E402

# What a worker does at its start, and nothing else.
STAND_IN = f"""#!{sys.executable} -S
import socket, sys, time
host, port = sys.argv[sys.argv.index("--listen") + 1].rsplit(":", 1)
listening = socket.create_server((host, int(port)))
print(f"penstock: gRPC on {{host}}:{{listening.getsockname()[1]}}", flush=True)
time.sleep(3600)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_ray.cluster(2, cpus=4, board=4) as made:
        yield made


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "penstock"
    file.write_text(STAND_IN)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def pid_of(fleet: Any, name: str) -> int:
    return int(ray.get(fleet._workers[name].pid.remote()))


def until(condition: Any) -> None:
    """What is waited for comes; a test that hangs is ended from outside."""
    while not condition():
        time.sleep(0.01)  # Who spins takes half of two cores from what it waits for.


def test_workers_are_placed_where_their_resources_are(cluster: Any, program: str) -> None:
    specs = [WorkerSpec(name, resources={"board": 1}, program=program) for name in ("a", "b")]
    fleet = penstock.ray.start(specs, strategy="STRICT_SPREAD")
    try:
        addresses = fleet.addresses()
        assert list(addresses) == ["a", "b"]
        assert len(set(addresses.values())) == 2
        nodes = {ray.get(worker.node.remote()) for worker in fleet._workers.values()}
        assert len(nodes) == 2
    finally:
        fleet.stop()


def test_a_worker_that_is_killed_is_started_again(cluster: Any, program: str) -> None:
    fleet = penstock.ray.start([WorkerSpec("a", program=program)])
    try:
        before = pid_of(fleet, "a")
        os.kill(before, signal.SIGKILL)

        def is_another() -> bool:
            fleet.addresses()
            try:
                return pid_of(fleet, "a") != before
            except ray.exceptions.RayActorError:
                return False

        until(is_another)
    finally:
        fleet.stop()


def test_workers_end_with_their_fleet(cluster: Any, program: str) -> None:
    fleet = penstock.ray.start([WorkerSpec("a", program=program)])
    pid = pid_of(fleet, "a")
    fleet.stop()

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
        except (FileNotFoundError, ProcessLookupError):  # Also while it is read.
            return True

    until(is_gone)


def test_what_nobody_has_room_for_is_told(cluster: Any, program: str) -> None:
    with pytest.raises(penstock.Unavailable, match=r"no room for the workers .* 'a' .*'quantum': 1"):
        penstock.ray.start([WorkerSpec("a", resources={"quantum": 1}, program=program)], timeout=1)


def test_up_writes_the_hosts_and_down_ends_them(cluster: Any, program: str, tmp_path: Path) -> None:
    file, hosts = tmp_path / "cluster.yaml", tmp_path / "hosts.yaml"
    file.write_text(
        f"penstock_cluster: 1\nname: ours\ndefaults: {{program: {program}}}\n"
        "workers:\n  a: {connection: {tls: true}}\n  b: {resources: {board: 1}}\n"
    )
    addresses = penstock.ray.up(file, hosts)
    text = hosts.read_text()
    assert f'"a": {{"address": "{addresses["a"]}", "tls": true}}' in text
    with pytest.raises(penstock.AlreadyExists, match="'ours' are up already"):
        penstock.ray.up(file)
    assert penstock.ray.attach("ours").addresses() == addresses
    penstock.ray.down(file)
    with pytest.raises(penstock.NotFound, match="no workers 'ours' are up"):
        penstock.ray.attach("ours")


def is_set_aside(name: str) -> bool:
    """Whether Ray keeps room for the workers of a cluster.yaml of that name."""
    groups = ray.util.placement_group_table().values()
    return any(group["name"] == name and group["state"] != "REMOVED" for group in groups)


@pytest.mark.parametrize(
    ("number", "wanted"),
    [(signal.SIGINT, "quantum"), (signal.SIGTERM, "quantum"), (signal.SIGTERM, "board"), (signal.SIGHUP, "board")],
    ids=["Ctrl-C without room", "kill without room", "kill while they start", "hang-up while they start"],
)
def test_up_that_is_interrupted_leaves_nothing(cluster: Any, tmp_path: Path, number: int, wanted: str) -> None:
    started = tmp_path / "started"
    program = tmp_path / "penstock"  # A worker that never says where it is.
    program.write_text(f"#!{sys.executable} -S\nimport time\nopen({str(started)!r}, 'w')\ntime.sleep(3600)\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    name = f"broken{int(number)}{wanted}"
    file = tmp_path / "cluster.yaml"
    file.write_text(
        f"penstock_cluster: 1\nname: {name}\nworkers: {{a: {{program: {program}, resources: {{{wanted}: 1}}}}}}\n"
    )
    script = "import sys; from penstock.ray import _main; sys.exit(_main())"
    command = [sys.executable, "-c", script, "up", str(file)]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as running:
        until(lambda: started.exists() or wanted == "quantum" and is_set_aside(name) or running.poll() is not None)
        assert running.poll() is None, running.communicate()[1]
        running.send_signal(number)
        assert running.wait() != 0
    until(lambda: not is_set_aside(name))  # Ray takes a group back some time after it was asked to.
    assert penstock.ray._find(ray, name) == []


def test_up_that_cannot_write_the_hosts_leaves_nothing(cluster: Any, program: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"penstock_cluster: 1\nname: unwritten\nworkers: {{a: {{program: {program}}}}}\n")
    with pytest.raises(penstock.NotFound, match=r"hosts.yaml': cannot be written: No such file"):
        penstock.ray.up(file, tmp_path / "absent/hosts.yaml")
    assert not is_set_aside("unwritten")
    assert penstock.ray._find(ray, "unwritten") == []


@pytest.mark.parametrize(
    ("command", "place"), [("up", "nobody listens"), ("down", "nobody answers"), ("down", "RAY_ADDRESS")]
)
def test_a_head_that_is_gone_is_told_at_once(tmp_path: Path, command: str, place: str) -> None:
    environment = {**os.environ, **local_ray.variables()}
    environment.pop("RAY_ADDRESS", None)
    file = tmp_path / "cluster.yaml"
    text = "penstock_cluster: 1\nworkers: {a: {}}\n"
    with socket.socket() as head:
        head.bind(("0.0.0.0", 0))
        if place == "nobody answers":
            head.listen()
        address = f"127.0.0.1:{head.getsockname()[1]}"
        if place == "RAY_ADDRESS":
            environment[place] = address
        else:
            text += f"ray: {address}\n"
        file.write_text(text)
        script = "import sys; from penstock.ray import _main; sys.exit(_main())"
        words = [sys.executable, "-c", script, command, str(file)]
        ended = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert re.fullmatch(r"penstock: error: Ray: its head does not answer at '\S+' .*\n", ended.stderr)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers: {a: {}}\n", "expected 'penstock_cluster: 1'"),
        ("penstock_cluster: 1\n", "workers: expected a mapping of names"),
        ("penstock_cluster: 1\nworkers: {a: {prot: 1}}\n", "workers.a: unknown field prot; expected one of arguments"),
        ("a: [\n", "not YAML"),
        # Ray itself would add it to what the node has.
        (
            "penstock_cluster: 1\nworkers: {a: {resources: {board: -1}}}\n",
            "cluster.yaml: worker 'a': resources.board: expected a number, 0 or more, found -1",
        ),
        ("penstock_cluster: 1\nworkers: {a: {cpus: -1}}\n", "worker 'a': cpus: expected a number of CPUs, 0 or more"),
        ("penstock_cluster: 1\nworkers: {a: {cpus: 0}}\n", "worker 'a': cpus: expected more than 0, as there are no"),
        ("penstock_cluster: 1\nworkers: {a: {cpus: two}}\n", "worker 'a': cpus: expected a number of CPUs"),
        ("penstock_cluster: 1\nworkers: {a: {port: 70000}}\n", "worker 'a': port: expected 0 to 65535, found 70000"),
        ("penstock_cluster: 1\nworkers: {a: {arguments: x}}\n", "worker 'a': arguments: expected texts, found 'x'"),
    ],
    ids=["no version", "no workers", "misspelt", "no yaml", "below 0", "cpus", "nothing", "text", "port", "arguments"],
)
def test_a_cluster_file_that_is_wrong_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with pytest.raises(penstock.InvalidArgument, match=message):
        penstock.ray.up(file)


def test_hosts_of_a_plan_that_are_workers_stay_there() -> None:
    at = {"large": "10.0.0.2:8500", "small": "10.0.0.3:8500"}
    assert penstock.ray._places(["10.0.0.3:8500", "10.0.0.2:8500"], at) == {
        "10.0.0.3:8500": "small",
        "10.0.0.2:8500": "large",
    }
    assert penstock.ray._places(["a:1", "10.0.0.2:8500"], at) == {"a:1": "small", "10.0.0.2:8500": "large"}
    assert penstock.ray._places(["a:1", "b:1"], at) == {"a:1": "large", "b:1": "small"}


class PipelineOfNothing:
    def __init__(self) -> None:
        self.given: list[Path] = []
        self.refuses = False

    def replace(self, package: Path) -> None:
        self.given.append(package)
        if self.refuses:
            raise penstock.Unavailable("not now")

    def shut_down(self) -> None:
        pass


class FleetOfNothing:
    def __init__(self) -> None:
        self.at = {"a": "n:1"}

    def addresses(self, timeout: float) -> dict[str, str]:
        return dict(self.at)


@pytest.mark.filterwarnings("ignore:the pipeline stays where it is")
@pytest.mark.parametrize("zipped", [False, True])
def test_a_deployment_that_moves_keeps_no_copies(tmp_path: Path, monkeypatch: Any, zipped: bool) -> None:
    folder = tmp_path / "p.penstock"
    folder.mkdir()
    plan = json.dumps({"stages": [{"devices": ["h:1/cpu:0"]}]})
    (folder / "plan.json").write_text(plan)
    (folder / "weights").write_bytes(b"many")
    package = Path(shutil.make_archive(str(folder), "zip", folder)) if zipped else folder
    pipeline, fleet = PipelineOfNothing(), FleetOfNothing()
    monkeypatch.setattr(penstock.ray.make, "load", lambda _: pipeline)
    monkeypatch.setattr(penstock.ray, "_LOOK_S", 0.001)
    monkeypatch.setattr(penstock.ray, "_LONGEST_LOOK_S", 0.004)
    with penstock.ray.Deployment(package, fleet, {"h:1": "a"}, False, {}) as deployed:
        for port in range(2, 7):
            fleet.at = {"a": f"n:{port}"}
            until(lambda port=port: deployed.moves == port - 1)
        last = pipeline.given[-1]
        assert json.loads((last / "plan.json").read_text())["stages"][0]["devices"] == ["n:6/cpu:0"]
        assert zipped or (last / "weights").samefile(folder / "weights")
        assert len([file for file in last.parent.iterdir() if file.name.startswith("at-")]) == 2
        pipeline.refuses = True
        fleet.at = {"a": "n:7"}
        until(lambda: len(pipeline.given) > 10)
        assert last.exists()
        assert len([file for file in last.parent.iterdir() if file.name.startswith("at-")]) <= 3
    assert (folder / "plan.json").read_text() == plan


def test_a_package_without_hosts_is_not_deployed(cluster: Any, model: Path, tmp_path: Path) -> None:
    package = tmp_path / "p.penstock"
    with penstock.split(model) as pipeline:
        pipeline.save(package)
    with pytest.raises(penstock.FailedPrecondition, match="no device of another host"):
        penstock.ray.deploy(package)


# The whole: workers of ours, a pipeline over them


@pytest.fixture(scope="module")
def worker_program() -> str:
    program = os.environ.get("PENSTOCK_BIN", str(ROOT / "build/dev/bin/penstock"))
    if "\n  worker " not in subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("this build has no 'penstock worker'")
    return program


@pytest.fixture(scope="module")
def secrets(worker_program: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What workers and the pipeline are given: files of an authority, a certificate for this machine, and a token."""
    made = local_hosts.make_secrets(tmp_path_factory.mktemp("secrets"), [ray.util.get_node_ip_address(), "127.0.0.1"])
    return {
        "program": worker_program,
        "arguments": made.worker_arguments,
        "backend_options": {"remote": made.remote_options},
    }


@pytest.fixture
def package(model: Path, tmp_path: Path, worker_program: str) -> Path:
    """Two stages on two hosts, which have no address yet."""
    file = tmp_path / "two.penstock"
    command = [worker_program, "split", str(model), "--cut", "increment", "-o", str(file), "--devices"]
    subprocess.run([*command, "a:1/cpu:0,b:1/cpu:0"], check=True, capture_output=True)
    return file


@pytest.mark.sweep(of=3)
def test_a_pipeline_goes_on_where_ray_starts_its_worker_again(
    cluster: Any, package: Path, secrets: dict[str, Any], model: Path
) -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    with penstock.split(model) as here:
        expected = here.run(None, [x])[0]
    with penstock.ray.deploy(package, strategy="STRICT_SPREAD", **secrets) as deployed:
        assert json.dumps(deployed.pipeline.plan).find('"a:1/') < 0
        np.testing.assert_allclose(deployed.pipeline.run(None, [x])[0], expected, rtol=1e-6)
        os.kill(pid_of(deployed._fleet, deployed._fleet.names[0]), signal.SIGKILL)
        until(lambda: deployed.moves > 0)
        np.testing.assert_allclose(deployed.pipeline.run(None, [x])[0], expected, rtol=1e-6)


@pytest.mark.sweep(of=3)
def test_a_node_that_dies_is_left_for_another(cluster: Any, package: Path, secrets: dict[str, Any]) -> None:
    x = np.ones((1, 4), np.float32)
    with penstock.ray.deploy(package, strategy="PACK", **secrets) as deployed:
        expected = deployed.pipeline.run(None, [x])[0]
        local_ray.lose(cluster, local_ray.node_of(cluster, deployed._fleet, deployed._fleet.names[0]))
        until(lambda: deployed.moves > 0)
        np.testing.assert_allclose(deployed.pipeline.run(None, [x])[0], expected, rtol=1e-6)


@pytest.mark.sweep(of=3)
def test_workers_of_up_show_their_devices_and_serve_a_pipeline_until_down(
    cluster: Any, package: Path, secrets: dict[str, Any], tmp_path: Path
) -> None:
    connection = secrets["backend_options"]["remote"]
    cluster_file, hosts = tmp_path / "cluster.yaml", tmp_path / "hosts.yaml"
    worker = {"program": secrets["program"], "arguments": secrets["arguments"], "connection": connection}
    described = {"penstock_cluster": 1, "name": "real", "defaults": worker, "workers": {"a": {}, "b": {}}}
    cluster_file.write_text(json.dumps(described))  # Which is YAML too.
    environment = {**os.environ, "PENSTOCK_PYTHON": sys.executable, "RAY_ADDRESS": cluster.address}

    def call(*words: object) -> str:
        command = [secrets["program"], *map(str, words)]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    call("up", cluster_file, "-o", hosts)
    try:
        devices = call("devices", "--hosts", hosts)
        for name in ("a", "b"):
            assert re.search(rf"^{name}\b", devices, re.MULTILINE), devices
        with penstock.ray.deploy(package, fleet="real", backend_options={"remote": connection}) as deployed:
            assert set(deployed.addresses.values()) == set(penstock.ray.attach("real").addresses().values())
            deployed.pipeline.run(None, [np.ones((1, 4), np.float32)])
    finally:
        call("down", cluster_file)
    with pytest.raises(penstock.NotFound, match="no workers 'real' are up"):
        penstock.ray.attach("real")
