"""Workers of Penstock on a Ray cluster: placed, started, and started elsewhere when a node dies.

    import penstock.ray

    with penstock.ray.deploy("model.penstock", resources={"penstock": 1}) as deployed:
        for frame in deployed.pipeline.stream(images):
            ...

Ray places and watches; tensors go over the workers' own connections. Ray is found at run time (``pip install
"penstock[ray]"``). Each node needs the program ``penstock``. ``docs/hosts.md`` tells the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import numbers
import os
import shutil
import socket
import tempfile
import threading
import time
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from types import TracebackType
from typing import Any

from penstock import make
from penstock.checks import path_text, unexpected
from penstock.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, PenstockWarning, Unavailable
from penstock.pipeline import Pipeline
from penstock.threads import start_thread
from penstock.types import Path

_NAMESPACE = "penstock"
_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
_ANSWER_S = 5.0  # How long a head may take to answer.
_HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5)  # What gRPC begins with; it is answered.
_LOOK_S = 0.25  # How often workers are asked whether they are there.
_LONGEST_LOOK_S = 4.0  # Where the pipeline cannot go where they are.


@dataclasses.dataclass(frozen=True)
class WorkerSpec:
    """What Ray is asked for one worker. Secrets are files of the node that it runs on."""

    name: str
    cpus: float = 1
    """Of Ray's CPUs: how many are taken. The worker itself may use all of its node."""
    resources: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Ray's custom resources, which tie it to nodes that have them."""
    port: int = 0
    """0: a free one."""
    program: str = "penstock"
    """A path on the node, or a name that is looked up there."""
    arguments: Sequence[str] = ()
    """More of ``penstock worker``: ``["--tokens", "/etc/penstock/tokens"]``."""

    def __post_init__(self) -> None:
        """Ray takes any figure, and gives what is below 0 to the node. Raises InvalidArgument."""

        def expect(right: bool, field: str, expected: str, found: object) -> None:
            if not right:
                raise InvalidArgument(f"worker '{self.name}': {field}: expected {expected}, found {found!r}")

        def is_number(value: object) -> bool:
            return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)

        expect(is_number(self.cpus) and self.cpus >= 0, "cpus", "a number of CPUs, 0 or more", self.cpus)
        expect(isinstance(self.resources, Mapping), "resources", "a mapping of names and numbers", self.resources)
        for name, many in self.resources.items():
            expect(is_number(many) and many >= 0, f"resources.{name}", "a number, 0 or more", many)
        expect(bool(self.bundle), "cpus", "more than 0, as there are no resources either", self.cpus)
        is_port = isinstance(self.port, numbers.Integral) and not isinstance(self.port, bool) and 0 <= self.port < 65536
        expect(is_port, "port", "0 to 65535", self.port)
        text = (str, os.PathLike)
        expect(isinstance(self.program, text), "program", "a path or a name", self.program)
        words = isinstance(self.arguments, Sequence) and not isinstance(self.arguments, str)
        expect(words and all(isinstance(each, text) for each in self.arguments), "arguments", "texts", self.arguments)

    @property
    def bundle(self) -> dict[str, float]:
        """What Ray's placement group sets aside for it."""
        return {name: float(many) for name, many in {"CPU": self.cpus, **self.resources}.items() if many}


def _import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
        import ray.util.placement_group
    except ModuleNotFoundError as error:
        raise NotFound(
            f"Ray cannot be imported ({error}): pip install 'penstock[ray]', or start 'penstock worker' "
            "on each host yourself and name them in a file (docs/hosts.md)"
        ) from None
    return ray


def _check_head(address: str | None) -> None:
    """That the cluster's head answers. Ray itself tries for minutes where it does not, and raises nothing."""
    from ray._private.services import canonicalize_bootstrap_address

    try:
        place = canonicalize_bootstrap_address(address)
    except ValueError as error:
        raise InvalidArgument(f"Ray: {error}; expected HOST:PORT or auto") from None
    except ConnectionError:  # There is none.
        place = None
    if place is None:
        return
    host, _, port = place.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S) as head:
            head.sendall(_HTTP2)
            head.recv(1)
    except ConnectionResetError:
        return  # Somebody is there, who wants TLS.
    except OSError as error:
        raise Unavailable(
            f"Ray: its head does not answer at '{place}' ({error.strerror or error}): start it there "
            "('ray start --head'), or mend the address ('ray' of cluster.yaml, RAY_ADDRESS)"
        ) from None


def _connect(address: str | None) -> Any:
    """Ray, joined to its cluster; None: the one that is running, else one of this machine alone."""
    ray = _import_ray()
    if not ray.is_initialized():
        if "://" not in (address or "") + os.environ.get("RAY_ADDRESS", ""):  # Those go by a client of Ray's.
            _check_head(address)
        try:
            ray.init(address=address, namespace=_NAMESPACE, log_to_driver=False, logging_level="warning")
        except ConnectionError as error:
            raise Unavailable(f"Ray: {error}; 'ray start --head' starts a cluster on this machine") from None
    return ray


def _actor_class() -> type:
    """Of what runs on a node beside the worker. Ray sends it there by value: the node needs no Python package."""

    class WorkerOnNode:
        def __init__(self, program: str, port: int, arguments: list[str]) -> None:
            import ctypes
            import re
            import signal
            import subprocess
            import threading

            import ray

            def die_with_the_node() -> None:  # Also where this process is killed.
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)

            host = ray.util.get_node_ip_address()
            command = [program, "worker", "--listen", f"{host}:{port}", *arguments]
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=die_with_the_node,
            )
            output: Any = self._process.stdout
            said: list[str] = []
            for line in output:
                said.append(line)
                if found := re.search(r"gRPC on (\S+)", line):
                    self._address = found[1]
                    break
            else:
                raise RuntimeError(f"{' '.join(command)}: ended with {self._process.wait()}: {''.join(said[-5:])}")

            def follow() -> None:
                for _ in output:
                    pass
                self._process.wait()
                os._exit(1)  # Ray starts the two again, here or elsewhere.

            threading.Thread(target=follow, daemon=True).start()

        def address(self) -> str:
            return self._address

        def pid(self) -> int:
            return self._process.pid

        def node(self) -> str:
            import ray

            return str(ray.get_runtime_context().get_node_id())

    return WorkerOnNode


class Fleet:
    """Workers that Ray keeps running. Made by :func:`start` and :func:`attach`."""

    def __init__(self, ray: Any, name: str, workers: dict[str, Any], group: Any) -> None:
        self._ray = ray
        self._name = name
        self._workers = workers
        self._group = group

    @property
    def names(self) -> list[str]:
        """Of its workers."""
        return list(self._workers)

    def addresses(self, timeout: float = 60) -> dict[str, str]:
        """Where each worker is now: ``"host:port"``. Waits for those that are being started.

        Raises Unavailable where one does not come.
        """
        end = time.monotonic() + timeout
        found: dict[str, str] = {}
        for name in self._workers:
            while name not in found:
                address = self._address(name, max(0.1, end - time.monotonic()))
                if address is not None:
                    found[name] = address
                elif time.monotonic() > end:
                    raise Unavailable(
                        f"worker '{name}': Ray has not started it within {timeout} s; 'ray status' tells "
                        "whether a node has what it asks for, 'ray logs' why it ended"
                    )
        return found

    def _address(self, name: str, timeout: float) -> str | None:
        """None: it is not there now."""
        try:
            return str(self._ray.get(self._workers[name].address.remote(), timeout=timeout))
        except self._ray.exceptions.GetTimeoutError:
            return None
        except self._ray.exceptions.ActorDiedError as error:  # For good: it could not be started.
            raise Unavailable(f"worker '{name}': {str(error).strip().splitlines()[-1].strip()}") from None
        except self._ray.exceptions.RayActorError:
            time.sleep(min(_LOOK_S, timeout))
            return None

    def _place(self, workers: Sequence[WorkerSpec], options: Mapping[str, Any]) -> None:
        """One actor for each bundle of the group. options: of all of them; detached ones get names."""
        kind = self._ray.remote(_actor_class())
        for i, worker in enumerate(workers):
            where = self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
                placement_group=self._group, placement_group_bundle_index=i
            )
            named = {"name": f"{self._name}/{worker.name}"} if options else {}
            self._workers[worker.name] = kind.options(
                num_cpus=float(worker.cpus),
                resources={name: float(many) for name, many in worker.resources.items() if many},
                max_restarts=-1,
                scheduling_strategy=where,
                **options,
                **named,
            ).remote(os.fspath(worker.program), int(worker.port), [os.fspath(each) for each in worker.arguments])

    def stop(self) -> None:
        """Ends the workers, and gives back what Ray set aside for them."""
        for worker in self._workers.values():
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(worker, no_restart=True)
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)
        self._workers = {}


def _wait_for(group: Any, timeout: float) -> bool:
    """Whether Ray sets it aside in time. In slices: Python takes no signal while Ray's library waits."""
    until = time.monotonic() + timeout
    while not group.wait(max(min(0.5, until - time.monotonic()), 0)):
        if time.monotonic() >= until:
            return False
    return True


def start(
    workers: Sequence[WorkerSpec],
    *,
    name: str = "penstock",
    strategy: str = "SPREAD",
    address: str | None = None,
    detached: bool = False,
    timeout: float = 60,
) -> Fleet:
    """Lets Ray place workers and start them; it starts them again, elsewhere too, for as long as the fleet is there.

    strategy: Ray's: ``"STRICT_SPREAD"`` puts each on a node of its own.
    detached: they outlive this process, until :meth:`Fleet.stop`.
    Raises NotFound (no Ray), AlreadyExists (a detached fleet of the name), Unavailable (no room within ``timeout``).
    """
    if strategy not in _STRATEGIES:
        raise unexpected("strategy", "one of " + ", ".join(_STRATEGIES), strategy)
    names = [worker.name for worker in workers]
    if not names or len(set(names)) != len(names):
        raise InvalidArgument(f"workers: expected one or more, each with a name of its own, found {names}")
    ray = _connect(address or ("auto" if detached else None))
    if detached and _find(ray, name):
        raise AlreadyExists(f"workers '{name}' are up already: 'penstock down' ends them")
    options: dict[str, Any] = {"lifetime": "detached"} if detached else {}
    try:
        group = ray.util.placement_group(
            [worker.bundle for worker in workers], strategy=strategy, name=f"{name}" if detached else "", **options
        )
    except BaseException:  # Interrupted, it may be there already; one that is not detached goes with this process.
        if detached:
            with contextlib.suppress(ValueError):  # It is not.
                ray.util.remove_placement_group(ray.util.get_placement_group(name))
        raise
    fleet = Fleet(ray, name, {}, group)
    try:
        if not _wait_for(group, timeout):
            wanted = ", ".join(f"'{worker.name}' {dict(worker.bundle)}" for worker in workers)
            raise Unavailable(f"Ray has no room for the workers within {timeout} s: they ask for {wanted}, {strategy}")
        fleet._place(workers, options)
        fleet.addresses(timeout)
    except BaseException:  # Also where somebody interrupts it: nobody else knows of what was set aside.
        fleet.stop()
        raise
    return fleet


def _find(ray: Any, name: str) -> list[str]:
    """The names of a detached fleet's workers."""
    known = ray.util.list_named_actors(all_namespaces=True)
    prefix = f"{name}/"
    return sorted(  # Ray tells them in any order.
        actor["name"].removeprefix(prefix)
        for actor in known
        if actor["namespace"] == _NAMESPACE and actor["name"].startswith(prefix)
    )


def attach(name: str = "penstock", *, address: str | None = None) -> Fleet:
    """The workers that ``penstock up`` or another process started. Raises NotFound."""
    ray = _connect(address or "auto")
    names = _find(ray, name)
    if not names:
        raise NotFound(f"no workers '{name}' are up in Ray: 'penstock up cluster.yaml' starts them")
    workers = {worker: ray.get_actor(f"{name}/{worker}", namespace=_NAMESPACE) for worker in names}
    try:
        group = ray.util.get_placement_group(name)
    except ValueError:
        group = None
    return Fleet(ray, name, workers, group)


def _hosts_of(plan: Mapping[str, Any]) -> list[str]:
    """``host:port`` of the plan's devices and stand-bys, in their order."""
    hosts: dict[str, None] = {}
    for stage in plan["stages"]:
        for device in [*stage["devices"], *stage.get("standby", [])]:
            host, slash, _ = device.rpartition("/")
            if slash and not device.startswith("oip://"):
                hosts[host] = None
    return list(hosts)


def _places(hosts: Sequence[str], addresses: Mapping[str, str]) -> dict[str, str]:
    """The plan's host -> the worker's name: at a worker's address that one, the others get what is left."""
    worker_at = {address: worker for worker, address in addresses.items()}
    places = {host: worker_at[host] for host in hosts if host in worker_at}
    left = [worker for worker in addresses if worker not in places.values()]
    others = [host for host in hosts if host not in places]
    return places | dict(zip(others, left, strict=False))


def _link(source: str, target: str) -> None:
    """The file once more, without its bytes where the file system can."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _unpacked(package: FilePath, folder: FilePath) -> FilePath:
    """The package as a folder."""
    if package.is_dir():
        return package
    target = folder / "package"
    with zipfile.ZipFile(package) as file:
        file.extractall(target)
    return target


def _moved(package: FilePath, addresses: Mapping[str, str], folder: FilePath) -> FilePath:
    """The package, a folder, with devices at other addresses; its other files are links."""
    target = folder / f"at-{time.monotonic_ns()}.penstock"
    shutil.copytree(package, target, copy_function=_link)
    file_of_plan = target / "plan.json"
    plan = json.loads(file_of_plan.read_text())
    file_of_plan.unlink()  # Else the package's own would be written.

    def move(device: str) -> str:
        host, slash, local = device.rpartition("/")
        return f"{addresses.get(host, host)}/{local}" if slash and not device.startswith("oip://") else device

    for stage in plan["stages"]:
        for key in ("devices", "standby"):
            if key in stage:
                stage[key] = [move(device) for device in stage[key]]
    file_of_plan.write_text(json.dumps(plan, indent=1))
    return target


def _read_plan(package: FilePath) -> dict[str, Any]:
    if package.is_dir():
        text = (package / "plan.json").read_text()
    else:
        with zipfile.ZipFile(package) as file:
            text = file.read("plan.json").decode()
    plan: dict[str, Any] = json.loads(text)
    return plan


class Deployment:
    """A pipeline over workers that Ray keeps running. ``with`` it, or :meth:`shut_down`, ends what it started."""

    def __init__(self, package: FilePath, fleet: Fleet, places: dict[str, str], own: bool, options: Any) -> None:
        """Made by :func:`deploy`. places: the plan's host -> the worker's name."""
        self._fleet = fleet
        self._places = places
        self._own = own
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-ray-")
        self._package = _unpacked(package, FilePath(self._folder.name))
        self._copies: list[FilePath] = []
        self._at = self._addresses(60)
        self._moves = 0
        self.pipeline: Pipeline = make.load(self._moved(), **options)
        """Takes and gives frames; what it runs on may change beneath it."""
        self._end = threading.Event()
        self._watcher = start_thread("ray", self._watch)

    @property
    def addresses(self) -> dict[str, str]:
        """The plan's host -> where its worker is now."""
        return dict(self._at)

    @property
    def moves(self) -> int:
        """How often the pipeline was given new addresses."""
        return self._moves

    def _addresses(self, timeout: float) -> dict[str, str]:
        now = self._fleet.addresses(timeout)
        return {host: now[worker] for host, worker in self._places.items()}

    def _moved(self) -> FilePath:
        self._copies.append(_moved(self._package, self._at, FilePath(self._folder.name)))
        return self._copies[-1]

    def _replace(self) -> None:
        """The copy before the last one stays: frames of that plan may still be on their way."""
        try:
            self.pipeline.replace(self._moved())
        except Exception:
            shutil.rmtree(self._copies.pop(), ignore_errors=True)
            raise
        while len(self._copies) > 2:
            shutil.rmtree(self._copies.pop(0), ignore_errors=True)

    def _watch(self) -> None:
        """Hands the addresses of workers that Ray has started elsewhere to the pipeline."""
        told = ""
        pause = _LOOK_S
        while not self._end.wait(pause):
            try:
                now = self._addresses(timeout=5)
                if now == self._at:
                    continue
                before, self._at = self._at, now
                try:
                    self._replace()
                    self._moves += 1
                except Exception:
                    self._at = before  # Once more at the next look.
                    pause = min(2 * pause, _LONGEST_LOOK_S)
                    raise
                pause = _LOOK_S
                told = ""
            except Exception as error:  # A node that is gone for long: frames tell it, each with its own error.
                if str(error) != told and not self._end.is_set():
                    told = str(error)
                    warnings.warn(f"the pipeline stays where it is: {error}", PenstockWarning, stacklevel=1)

    def shut_down(self) -> None:
        """Ends the pipeline, then the workers that :func:`deploy` started."""
        self._end.set()
        self._watcher.join()
        self.pipeline.shut_down()
        if self._own:
            self._fleet.stop()
        self._folder.cleanup()

    def __enter__(self) -> Deployment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shut_down()


def deploy(
    package: Path,
    *,
    fleet: Fleet | str | None = None,
    cpus: float = 1,
    resources: Mapping[str, Mapping[str, float]] | None = None,
    strategy: str = "SPREAD",
    program: str = "penstock",
    arguments: Sequence[str] = (),
    address: str | None = None,
    timeout: float = 60,
    **options: Any,
) -> Deployment:
    """Starts the workers that a package's plan names, wherever Ray has room, and the pipeline over them.

    package: each ``host:port`` of its devices stands for one worker, whatever the host's name.
    fleet: workers that are up already (:func:`start`, or the name of ``penstock up``): a host of the plan that is
        the address of one stays there, the others get the rest in order (of names, after ``penstock up``).
        None: one for each host is started, and ended with the deployment.
    cpus, resources: what Ray sets aside for each; resources by the plan's host, as in
        ``{"a:8500": {"board": 1}}``.
    program, arguments: of each worker, such as ``["--tls-certificate", FILE, "--tls-key", FILE, "--tokens", FILE]``:
        files of its node.
    options: of :func:`penstock.load`; ``backend_options={"remote": {"token_file": FILE}}`` names the files of
        the pipeline's own connections.

    When a node dies, Ray starts its worker elsewhere, and the pipeline goes on there: frames on their way come
    out, on a stand-by of the plan or as Unavailable.
    Raises NotFound (no Ray), FailedPrecondition (the plan has no host, or more than the fleet), Unavailable.
    """
    file = FilePath(path_text("package", package)).resolve()
    if not file.exists():
        raise NotFound(f"'{file}': no such package")
    hosts = _hosts_of(_read_plan(file))
    if not hosts:
        raise FailedPrecondition(
            f"'{file}': its plan has no device of another host, such as 'a:8500/cpu:0'; 'penstock plan --hosts' "
            "makes such plans"
        )
    own = fleet is None
    if isinstance(fleet, str):
        fleet = attach(fleet, address=address)
    if fleet is None:
        wanted = resources or {}
        if strange := set(wanted) - set(hosts):
            raise InvalidArgument(
                f"resources: expected hosts of the plan ({', '.join(hosts)}), found {sorted(strange)}"
            )
        specs = [
            WorkerSpec(host, cpus, dict(wanted.get(host, {})), program=program, arguments=arguments) for host in hosts
        ]
        fleet = start(specs, strategy=strategy, address=address, timeout=timeout)
    if len(fleet.names) < len(hosts):
        raise FailedPrecondition(f"the plan needs {len(hosts)} workers ({', '.join(hosts)}), found {len(fleet.names)}")
    try:
        places = {host: host for host in hosts} if own else _places(hosts, fleet.addresses(timeout))
        return Deployment(file, fleet, places, own, options)
    except BaseException:
        if own:
            fleet.stop()
        raise


def _read_cluster(file: FilePath) -> dict[str, Any]:
    """cluster.yaml, checked."""
    import yaml  # Ray brings it.

    try:
        text = yaml.safe_load(file.read_text())
    except FileNotFoundError:
        raise NotFound(f"'{file}': no such file") from None
    except yaml.YAMLError as error:
        raise InvalidArgument(f"{file}: not YAML: {' '.join(str(error).split())}") from None

    def check(place: str, value: Any, known: set[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InvalidArgument(f"{file}: {place}: expected a mapping of {', '.join(sorted(known))}")
        if strange := sorted(set(value) - known):
            raise InvalidArgument(
                f"{file}: {place}: unknown field {strange[0]}; expected one of {', '.join(sorted(known))}"
            )
        return value

    cluster = check("the file", text, {"penstock_cluster", "name", "ray", "strategy", "workers", "defaults"})
    if cluster.get("penstock_cluster") != 1:
        raise InvalidArgument(f"{file}: expected 'penstock_cluster: 1', the version of the format")
    fields = {"cpus", "resources", "port", "program", "arguments", "connection"}
    defaults = check("defaults", cluster.get("defaults") or {}, fields)
    workers = cluster.get("workers")
    if not isinstance(workers, dict) or not workers:
        raise InvalidArgument(f"{file}: workers: expected a mapping of names, one worker or more")
    cluster["workers"] = {
        str(name): {**defaults, **check(f"workers.{name}", worker or {}, fields)} for name, worker in workers.items()
    }
    return cluster


def up(file: Path, hosts_file: Path | None = None) -> dict[str, str]:
    """Starts the workers of a ``cluster.yaml``, which stay until :func:`down`; ``penstock up`` calls it.

    hosts_file: where a ``hosts.yaml`` with their addresses is written.
    Returns the address of each. Where it fails, or is interrupted, nothing stays in Ray.
    """
    path = FilePath(path_text("file", file))
    _import_ray()
    cluster = _read_cluster(path)
    try:
        specs = [
            WorkerSpec(name, **{key: value for key, value in worker.items() if key != "connection"})
            for name, worker in cluster["workers"].items()
        ]
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error}") from None
    fleet = start(
        specs,
        name=cluster.get("name", "penstock"),
        strategy=cluster.get("strategy", "SPREAD"),
        address=cluster.get("ray"),
        detached=True,
    )
    try:
        addresses = fleet.addresses()
        if hosts_file is not None:
            _write_hosts(FilePath(path_text("hosts_file", hosts_file)), addresses, cluster["workers"])
    except BaseException:
        fleet.stop()
        raise
    return addresses


def _write_hosts(file: FilePath, addresses: Mapping[str, str], workers: Mapping[str, Any]) -> None:
    lines = ["penstock_hosts: 1", "hosts:"]
    for name, address in addresses.items():
        fields = {"address": address, **(workers[name].get("connection") or {})}
        lines.append(f"  {json.dumps(name)}: {json.dumps(fields)}")
    try:
        file.write_text("\n".join(lines) + "\n")
    except OSError as error:
        raise NotFound(f"'{file}': cannot be written: {error.strerror}") from None


def down(file: Path) -> None:
    """Ends the workers that :func:`up` started. Raises NotFound where none are up."""
    cluster = _read_cluster(FilePath(path_text("file", file)))
    attach(cluster.get("name", "penstock"), address=cluster.get("ray")).stop()


def _leave(number: int, _frame: Any) -> None:
    raise SystemExit(128 + number)  # What was begun is undone on the way out.


def _main() -> int:
    import argparse
    import signal
    import sys

    from penstock.errors import PenstockError

    parser = argparse.ArgumentParser(prog="penstock", description="Starts and ends workers on a Ray cluster.")
    commands = parser.add_subparsers(dest="command", required=True)
    starting = commands.add_parser("up", help="start the workers of a cluster.yaml")
    starting.add_argument("file")
    starting.add_argument("-o", "--output", help="write a hosts.yaml with their addresses here")
    ending = commands.add_parser("down", help="end them")
    ending.add_argument("file")
    options = parser.parse_args()
    try:
        _import_ray()
        # Ray's library takes SIGTERM for a crash and ends the process there: what follows comes after it is loaded.
        _connect(_read_cluster(FilePath(options.file)).get("ray") or "auto")
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _leave)
        if options.command == "up":
            for name, address in up(options.file, options.output).items():
                print(f"{name}  {address}")
        else:
            down(options.file)
    except PenstockError as error:
        print(f"penstock: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("penstock: interrupted; what it had begun in Ray is ended", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    raise SystemExit(_main())
