"""`penstock functions`: the list, one of them, and YAML that is an application."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import ROOT


@pytest.fixture(scope="module")
def sheets(program) -> list[dict]:
    done = subprocess.run([program, "functions", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["functions"]


def bounded(type_: str) -> str:
    """With a bound for each dimension that has none: an application makes room for its inputs."""
    name, _, dims = type_.rstrip("]").partition("[")
    closed = [dim if dim.isdigit() or "<=" in dim else f"{dim}<=64" for dim in dims.split(",")]
    return f"{name}[{','.join(closed)}]"


def test_each_function_has_a_line(well, sheets):
    lines = well("functions").out.splitlines()
    assert lines[0].split() == ["function", "makes"]
    assert [line.split()[0] for line in lines[1:]] == [sheet["name"] for sheet in sheets]
    assert re.search(r"^softmax +Scores as probabilities of sum 1$", "\n".join(lines), re.MULTILINE)


def test_one_is_shown_with_what_it_takes_and_gives(well):
    text = well("functions", "letterbox").out
    assert "input   image  u8[height,width,3]\noutput  image  u8[480,640,3]\noutput  placement  f32[6]\n" in text
    assert re.search(r"^size +has to be given +Height and width of the frame\. It is height and", text, re.MULTILINE)
    assert re.search(r"^fill +114 +What the rest is filled with\. It is a whole number from 0 to 255\.$", text, re.M)
    assert "    ready: letterbox\n    options: {size: [480, 640]}\n    inputs: {image: image}\n" in text


@pytest.mark.parametrize(("name", "other"), [("nms", "`predictions`"), ("place_points", "`placement`")])
def test_inputs_of_other_settings_are_told_too(well, name, other):
    assert other in well("functions", name).out


def test_each_ones_yaml_is_a_node_of_an_application(well, sheets, tmp_path: Path):
    for sheet in sheets:
        app = {"penstock_app": 1, **yaml.safe_load(sheet["yaml"])}
        app["inputs"] = {port["name"]: bounded(port["type"]) for port in sheet["inputs"]}
        app["outputs"] = {f"out_{port['name']}": f"{sheet['name']}.{port['name']}" for port in sheet["outputs"]}
        (tmp_path / "app.yaml").write_text(yaml.safe_dump(app))
        assert sheet["name"] in well("show", tmp_path / "app.yaml").out


def test_the_page_has_each_function_and_option(sheets):
    page = (ROOT / "docs/ready_functions.md").read_text(encoding="utf-8")
    for sheet in sheets:
        section = page.partition(f"\n### {sheet['name']}\n")[2].partition("\n### ")[0]
        assert sheet["says"] in section
        assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [option["name"] for option in sheet["options"]]


def test_an_unknown_one_is_refused_with_those_there_are(penstock):
    done = penstock("functions", "leterbox")
    assert done.code == 1
    assert "no ready-made function 'leterbox'; did you mean 'letterbox'?; there are: decode, resize, " in done.error
