"""The application of script/demo: two networks that find a ball and tell its colour."""

import subprocess
import sys

from conftest import ROOT


def of_balls(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, ROOT / "examples/demo/balls.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_demos_networks_find_each_ball_and_its_colour(well, tmp_path):
    assert of_balls("make", tmp_path).returncode == 0
    report = well("run", "balls.yaml", "--input", "picture=pictures", "--output", "found.jsonl", "--json").json
    assert [stage["name"] for stage in report["stages"]] == ["find", "name"]
    shown = of_balls("show", tmp_path)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "12 of 12 right" in shown.stdout
    assert (tmp_path / "found.png").is_file()

    found = tmp_path / "found.jsonl"
    found.write_text(found.read_text().replace('"red"', '"blue"', 1))
    assert of_balls("show", tmp_path).returncode == 1
