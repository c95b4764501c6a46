"""Strangers that send what is no request: clients/hostile.py. A sample; all of it: script/hostile."""

import os
import re
import subprocess
import zlib
from pathlib import Path

import pytest
from servers import CLIENTS
from test_http import Server, save_models

SCRIPT = Path(__file__).parent / "clients/hostile.py"
REQUESTS = int(os.environ.get("PENSTOCK_HOSTILE_REQUESTS", "600"))
CONNECTIONS = int(os.environ.get("PENSTOCK_HOSTILE_CONNECTIONS", "300"))


def test_malformed_requests_have_errors_of_their_own_and_disturb_nobody(tmp_path: Path) -> None:
    if not CLIENTS.exists():
        pytest.skip("no .clients: run script/setup --tests")
    add, text = save_models(tmp_path)[:2]
    limits = ["--max-message", str(8 << 20), "--max-inputs", str(64 << 20)]
    server = Server(add, text, *limits)
    seed = zlib.crc32(os.environ.get("PENSTOCK_SAMPLE", "").encode())
    arguments = [server.grpc, server.address, server.process.pid, REQUESTS, CONNECTIONS, seed]
    done = subprocess.run([CLIENTS, SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=1800)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"seed {seed}: {said[-4000:]}"
    assert re.search("^done: hostile$", done.stdout, re.MULTILINE)
    print(done.stdout)
    assert server.process.poll() is None
    assert server.end() == 0
    assert len(server.said()) < 2000, "strangers can fill the log"
