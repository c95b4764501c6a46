"""The commands of the documents run, in the order of the page; their C++ compiles."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from conftest import ROOT
from test_plan import chain_of

SHORTER = {"build": ["--budget", "2s"], "bench": ["--seconds", "1"]}  # What a page says, in less time.


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def commands(page: str) -> list[list[str]]:
    lines = [part.strip() for block in blocks(page, "") for line in block.splitlines() for part in line.split("&&")]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("penstock ")]


@pytest.mark.parametrize("page", ["README.md", "docs/building.md", "docs/cli.md", "docs/costs.md", "docs/planning.md"])
def test_the_commands_run(well, chain, tmp_path: Path, page: str):
    model = onnx.load(chain)
    if page == "docs/cli.md":
        model.graph.node[1].name = "layer3.0.relu"
    onnx.save(model, tmp_path / "model.onnx")
    (tmp_path / "problem.json").write_text(json.dumps(chain_of([4, 3, 2, 5])))
    found = commands(page)
    assert found, f"{page} has no commands"
    for command in found:
        options = SHORTER.get(command[0], [])
        if "--budget" in command:
            at = command.index("--budget")
            command, options = command[:at] + command[at + 2 :], SHORTER["build"]
        for target in command[command.index("-o") + 1 :][:1] if "-o" in command else []:
            shutil.rmtree(tmp_path / target, ignore_errors=True)
        well(*command, *options, env={"PENSTOCK_COSTS": str(tmp_path / "costs.db")})


# What makes a benchmark of a page short, or only say what it would run.
BRIEFLY = {"hand_over_bench": ["--benchmark_list_tests"], "overlap.py": ["--seconds", "0.02", "--rounds", "1"]}


def test_the_benchmarks_of_the_functions_run(program, cpus, tmp_path: Path):
    """Not how fast anything is: that they are there, and that what the page says of them is right."""
    build = program.resolve().parents[1]
    if not (build / "bin/hand_over_bench").exists() or not (build / "lib/python").exists() or len(cpus) < 2:
        pytest.skip("no benchmarks or no Python package beside the program, or one CPU only")
    shell = [line.partition("#")[0].split() for block in blocks("docs/functions.md", "") for line in block.splitlines()]
    assert [Path(command).name for command, *_ in shell] == list(BRIEFLY)
    for command, *options in shell:
        file = build / command.removeprefix("build/release/") if command.startswith("build/") else ROOT / command
        done = subprocess.run(
            [*([sys.executable] if file.suffix == ".py" else []), file, *options, *BRIEFLY[file.name]],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(build / "lib/python")},
        )
        assert done.returncode == 0, done.stderr
        assert ("bm_functions" if options else "of the bottleneck") in done.stdout


# What stands around the snippets of a page.
AROUND = {
    "docs/cpp.md": """
#include "penstock/backend/registry.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"
void snippet(const std::vector<penstock::Tensor>& inputs) {{
{snippet}
}}
""",
    "docs/composition.md": """
#include "penstock/app/app.h"
#include "penstock/pipeline/pipeline.h"
void snippet() {{
{snippet}
}}
""",
    "docs/functions.md": """
#include "penstock/function/function.h"
#include "penstock/pipeline/pipeline.h"
namespace pipeline = penstock::pipeline;
bool is_empty(const penstock::Tensor&);
void crop(const penstock::Tensor&, const penstock::Tensor&, penstock::Tensor&);
void snippet(penstock::Type image_type, penstock::Type box_type, penstock::Type face_type) {{
{snippet}
}}
""",
}


@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler here")
@pytest.mark.parametrize("page", AROUND)
def test_the_cpp_compiles(page: str, tmp_path: Path):
    found = blocks(page, "cpp")
    assert found, f"{page} has no C++"
    for snippet in found:
        file = tmp_path / "snippet.cc"
        file.write_text(AROUND[page].format(snippet=snippet))
        command = ["c++", "-std=c++20", "-fsyntax-only", "-I", ROOT / "src", file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
