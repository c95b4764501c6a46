"""A pipeline of two stages on two workers, each of which stands by for the other, and a client that counts frames."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import local_hosts
from load import write_model

FOLDER = Path(__file__).resolve().parent
SECONDS = 120  # After which what should have come is missing.


class Client:
    """load.py in a process of its own."""

    def __init__(
        self, folder: Path, package: Path, before: Sequence[str], environment: dict[str, str], options: Sequence[str]
    ) -> None:
        self.results = folder / "results.json"
        command = [*before, sys.executable, str(FOLDER / "load.py"), str(package), str(self.results), *options]
        self._start(command, {**os.environ, **environment, "PYTHONPATH": python_path()})

    def _start(self, command: list[str], environment: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ready "):
                return
        raise RuntimeError(f"the client ended with {self.process.wait()}")

    def end(self) -> dict[str, Any]:
        """What it has counted."""
        self.process.communicate(timeout=SECONDS)
        if self.process.returncode != 0:
            raise RuntimeError(f"the client ended with {self.process.returncode}")
        return json.loads(self.results.read_text())

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def python_path() -> str:
    built = Path(local_hosts.find_program()).parents[1] / "lib/python"
    return os.pathsep.join(filter(None, [str(built), os.environ.get("PYTHONPATH")]))


class Scene:
    """What a fault is given. `events`: when something was gone, and when it was back, by the steady clock."""

    def __init__(self, folder: Path, stack: ExitStack, secrets: local_hosts.Secrets | None) -> None:
        self.folder = folder
        self.stack = stack
        self.secrets = secrets
        self.workers: dict[str, local_hosts.Worker] = {}
        self.testbed: local_hosts.Testbed | None = None
        self.events: list[tuple[float, float]] = []
        self.problems: list[str] = []  # What a fault found itself.
        self.end = 0.0

    def environment(self) -> dict[str, str]:
        return self.secrets.environment if self.secrets else {}

    def before(self, host: str) -> list[str]:
        return self.testbed.on(host) if self.testbed else []

    def add_worker(self, name: str, *arguments: str, **more: Any) -> local_hosts.Worker:
        given = [*arguments, *(self.secrets.worker_arguments if self.secrets else [])]
        if self.testbed:
            more["listen"] = self.testbed.addresses[name]
        cache = self.folder / f"cache-{name}"
        started = local_hosts.Worker(cache, *given, before=self.before(name), **more)
        self.workers[name] = self.stack.enter_context(started)
        return started

    def split(self, model: Path, *arguments: str) -> Path:
        package = self.folder / f"{model.stem}.penstock"
        command = [local_hosts.find_program(), "split", str(model), "-o", str(package), *arguments]
        subprocess.run(command, check=True, capture_output=True)
        return package

    def start_client(self, *options: str) -> Client:
        """`options`: of load.py."""
        cpu = min(os.sched_getaffinity(0))
        devices = [f"{worker.address}/cpu:{cpu}" for worker in self.workers.values()]
        model = write_model(self.folder / "chaos.onnx")
        package = self.split(model, "--cut", "1", "--devices", ",".join(devices[:2]), "--standby", ",".join(devices))
        client = Client(self.folder, package, self.before("caller"), self.environment(), options)
        return self.stack.enter_context(client)

    # For the faults

    def turns(self, every: float) -> Iterator[str]:
        """Names of workers in turn, one every so many seconds, until the time is up; one in any case."""
        begin = due = time.monotonic()
        while True:
            for name in list(self.workers):
                if due > begin and due + every > self.end:
                    return
                time.sleep(max(0.0, due - time.monotonic()))
                due = max(due, time.monotonic() - every) + every
                yield name

    @contextmanager
    def event(self) -> Iterator[None]:
        """What is gone within it is back behind it."""
        gone = time.monotonic()
        yield
        self.events.append((gone, time.monotonic()))
