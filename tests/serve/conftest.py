"""Processes that a test starts, and that end with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from servers import Run, Server


@pytest.fixture
def worker(tmp_path: Path) -> Iterator:
    """worker() starts a worker with a cache of its own."""
    workers: list[Server] = []

    def start(listen: str = "127.0.0.1:0", *arguments: str) -> Server:
        cache = tmp_path / f"cache{len(workers)}"
        workers.append(Server("--cache", str(cache), *arguments, listen=listen, command="worker"))
        return workers[-1]

    yield start
    for started in workers:
        started.process.kill()
        started.process.wait()


@pytest.fixture
def run() -> Iterator:
    runs: list[Run] = []

    def start(app: Path, **environment: str | Path) -> Run:
        runs.append(Run(app, **environment))
        return runs[-1]

    yield start
    for started in runs:
        started.process.kill()
        started.process.wait()
