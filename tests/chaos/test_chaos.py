"""Each fault of script/chaos once or twice: what is counted there must hold; throughput is not asked for here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
sys.path.extend([str(FOLDER), str(FOLDER.parents[1] / "tools")])
import faults  # noqa: E402
import local_hosts  # noqa: E402


def program() -> str:
    try:
        return local_hosts.find_program()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.sweep(of=6)
@pytest.mark.parametrize("fault", faults.NAMES)
def test_every_frame_comes_out_once_in_order_and_right(fault: str, tmp_path: Path) -> None:
    told = tmp_path / "found.json"
    command = [sys.executable, str(FOLDER / "chaos.py"), fault, "--seconds", "3", "--counts-only", "--json", str(told)]
    environment = {**os.environ, "PENSTOCK_BIN": program()}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as run:
        try:
            said, _ = run.communicate(timeout=900)
        except subprocess.TimeoutExpired:
            run.terminate()
            raise
    assert told.exists(), said
    found = json.loads(told.read_text())[fault]
    if "left_out" in found:
        pytest.skip(found["left_out"])
    assert found["wrong"] == [], found
    assert run.returncode == 0, said
    assert found["events"] > 0
    assert found["counts"]["right"] > 0
