"""The commands of the documents run, in the order of the page; so does their C++."""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import ROOT, save, value
from onnx import helper
from test_app import APPLY
from test_plan import chain_of

SHORTER = {"build": ["--budget", "2s"], "bench": ["--seconds", "1"]}  # What a page says, in less time.


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def commands(page: str) -> list[list[str]]:
    lines = [part.strip() for block in blocks(page, "") for line in block.splitlines() for part in line.split("&&")]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("penstock ")]


def documented_figures(page: str) -> set[str]:
    """The names in backticks of a page; one that begins with '_' stands for the name before it with another end."""
    names, before = set(), ""
    for name in re.findall(r"`([a-z_]+)`", (ROOT / page).read_text(encoding="utf-8")):
        before = before.rsplit("_", 1)[0] + name if name.startswith("_") else name
        names.add(before)
    return names


def test_every_figure_of_metrics_is_documented():
    """In the sources: which of them a program shows depends on what it does."""
    sources = [
        file for part in ("metrics", "rest", "ports", "watch") for file in (ROOT / "src/penstock" / part).glob("*.cc")
    ]
    texts = [file.read_text() for file in sources if not file.name.endswith("_test.cc")]
    figures = {name for text in texts for name in re.findall(r'"((?:penstock|nv|process)_[a-z_]+)"', text)}
    assert {"penstock_frames", "penstock_worker_calls", "nv_inference_count", "process_cpu_seconds_total"} <= figures
    assert figures - documented_figures("docs/observing.md") - documented_figures("docs/serve.md") == set()


def save_voice(folder: Path) -> None:
    """A network in an If over its sample rate, as docs/cli.md has it."""

    def branch(*ops: str) -> onnx.GraphProto:
        names = ["x", *(f"{op}_out" for op in ops)]
        nodes = [helper.make_node(op, [a], [b]) for op, a, b in zip(ops, names, names[1:], strict=False)]
        return helper.make_graph(nodes, ops[0], [], [value(names[-1], [1, 8])])

    nodes = [
        helper.make_node("Equal", ["sr", "known"], ["is_known"]),
        helper.make_node("If", ["is_known"], ["y"], then_branch=branch("Relu", "Exp"), else_branch=branch("Neg")),
    ]
    inputs = [value("x", [1, 8]), value("sr", [], onnx.TensorProto.INT64)]
    save(folder, "voice", nodes, inputs, [value("y", [1, 8])], {"known": np.array(16000, np.int64)})


def save_speech(folder: Path) -> None:
    """A network with a state and a sample rate, frames for it, and an application, as README.md has them."""
    nodes = [
        helper.make_node("Cast", ["sr"], ["rate"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Add", ["x", "h"], ["y"]),
        helper.make_node("Div", ["y", "rate"], ["h_out"]),
    ]
    ends = value("x", [1, 8]), value("h", [1, 8]), value("sr", [], onnx.TensorProto.INT64)
    save(folder, "speech", nodes, [*ends], [value("y", [1, 8]), value("h_out", [1, 8])])
    (folder / "calls").mkdir()
    np.save(folder / "calls/x.npy", np.ones((1, 8), np.float32))
    save(folder, "part", [helper.make_node("Relu", ["x"], ["y"])], [value("x", [1, 8])], [value("y", [1, 8])])
    node = {"network": "part.onnx", "inputs": {"x": "sound"}}
    app = {"penstock_app": 1, "inputs": {"sound": "f32[1,8]"}, "nodes": {"part": node}, "outputs": {"y": "part.y"}}
    (folder / "app.yaml").write_text(json.dumps(app))


@pytest.fixture(scope="module")
def costs(tmp_path_factory) -> Path:
    """What the pages measure: most build the same model."""
    return tmp_path_factory.mktemp("costs") / "costs.db"


OTHER_PAGES = ["README.md", "docs/index.md", "docs/building.md", "docs/costs.md", "docs/planning.md"]


@pytest.mark.parametrize(
    "page", ["docs/cli.md", *(pytest.param(page, marks=pytest.mark.sweep(of=6)) for page in OTHER_PAGES)]
)
def test_the_commands_run(well, chain, costs: Path, tmp_path: Path, page: str):
    model = onnx.load(chain)
    model.graph.node[2].name = "layer3.0.relu"  # As docs/cli.md cuts; for all pages: what one has built, others know.
    onnx.save(model, tmp_path / "model.onnx")
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.zeros((1, 3, 4, 4), np.float32))
    save_voice(tmp_path)
    save_speech(tmp_path)
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
        well(*command, *options, env={"PENSTOCK_COSTS": str(costs)})


PAGES = ["README.md", *(f"docs/{page.relative_to(ROOT / 'docs')}" for page in sorted((ROOT / "docs").rglob("*.md")))]


def lines_of_page(page: str) -> list[str]:
    """Its command lines, each without the prompt and what a shell does with the output."""
    lines = [line for language in ("", "sh") for block in blocks(page, language) for line in block.splitlines()]
    shown = [line for block in blocks(page, "console") for line in block.splitlines()]
    lines += [line.removeprefix("$ ") for line in shown if line.startswith("$ ")]
    parts = [part.strip() for line in lines for part in re.split(r"\s&&\s|\s\|\s", line)]
    return [re.split(r"\s+(?:#|2?>|&$|\\$)", part)[0] for part in parts if part.startswith("penstock ")]


def lines_of_help(text: str) -> list[str]:
    """The examples; what stands behind two spaces says what they do."""
    parts = [part.strip() for line in text.splitlines() if line.startswith("  ") for part in line.split(" | ")]
    return [re.split(r"\s{2,}|\s>|\s\\$", part)[0] for part in parts if part.startswith("penstock ")]


def assert_understood(penstock, line: str) -> None:
    """In a folder without the files that it names: an option that the program lacks is another error."""
    command = shlex.split(line, comments=True)[1:]
    if command[0] == "worker":  # It needs no file, but an address.
        command = [*itertools.takewhile(lambda word: word != "--listen", command), "--listen", "unix:/nowhere/socket"]
    outcome = penstock(*command, timeout=60)
    assert outcome.code in (0, 1), (line, outcome)


@pytest.mark.parametrize("page", PAGES)
def test_the_command_lines_are_understood(penstock, own_costs, page):
    for line in dict.fromkeys(lines_of_page(page)):
        assert_understood(penstock, line)


def test_most_pages_command_lines_are_found():
    assert sum(len(lines_of_page(page)) for page in PAGES) > 70


@pytest.mark.sweep(of=3)
def test_the_command_lines_of_the_help_are_understood(penstock, own_costs):
    commands = re.findall(r"^  (\w+)  +[A-Z]", penstock("--help").out, re.MULTILINE)
    assert {"build", "serve", "top"} < set(commands)
    texts = [penstock("--help").out, *(penstock(command, "--help").out for command in commands)]
    lines = [line for text in texts for line in lines_of_help(text)]
    assert len(lines) > 60
    for line in dict.fromkeys(lines):
        assert_understood(penstock, line)


def test_the_script_that_swaps_runs(program, chain, tmp_path: Path):
    """By the shell; what it runs beside itself hears of hang-ups, whatever started the tests."""
    [script] = blocks("docs/cli.md", "sh")
    shutil.copy(chain, tmp_path / "model.onnx")
    path = f"{program.resolve().parent}:{os.environ['PATH']}"
    command = ["env", "--default-signal=HUP", "sh", "-ec", script + "wait $! || true"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "penstock: SIGHUP: replaced" in done.stdout.splitlines(), (tmp_path / "told.txt").read_text()


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


# What stands before and behind the snippets of a page, which together are the body of a function;
# "PAGE#1" is for the page's second snippet alone.
AROUND = {
    "docs/cpp.md": (
        "const std::vector inputs{filled({1, 3, 8, 8}, -2)};",
        """
show(*value(std::move(output)));
if (!replaced) std::cout << replaced.error().message() << "\\n";
value((*pipeline)->push(inputs));
show(*value((*pipeline)->pop()));
""",
    ),
    "docs/cpp.md#1": (
        "auto backends = penstock::backend::Registry::load();",
        """
if (!serving) std::cout << serving.error().message() << "\\n";
std::cout << address.substr(0, address.find(':')) << " " << (*serving)->models().size() << "\\n";
""",
    ),
    "docs/cpp.md#2": (
        """
const std::vector inputs{filled({1, 3, 8, 8}, -3)};
auto backends = penstock::backend::Registry::load();
auto serving =
    value(penstock::gateway::start_serving({.models = {"m=model.penstock"}, .grpc = "127.0.0.1:0"}, backends));
const auto address = serving->grpc_address();
if (!penstock::app::connect({.model = {address, "none", ""}}, backends)) std::cout << "no such model\\n";
""",
        """
if (!far) std::cout << far.error().message() << "\\n";
show(value(std::move(answer)));
""",
    ),
    "docs/composition.md": (
        "const std::vector frame{filled({1, 1, 257}, 4)};",
        """
show(value(std::move(outputs)));
show(std::vector{value(std::move(states)).front().second});
""",
    ),
    "docs/functions.md": (
        """
namespace pipeline = penstock::pipeline;
const auto image_type = *penstock::app::parse_type("f32[4]");
const auto box_type = *penstock::app::parse_type("f32[1]");
const auto face_type = *penstock::app::parse_type("f32[2]");
""",
        """
penstock::app::App faces{.name = "faces", .inputs = {{"image", {}}, {"box", {}}}, .outputs = {{"face", "crop.face"}}};
const penstock::app::FunctionNode node{.name = "crop"};
faces.nodes.push_back({.name = "crop", .runs = node, .inputs = {{"image", "image"}, {"box", "box"}}});
auto package = value(penstock::app::pack(faces, {}, options.functions));
auto running = value(pipeline::Pipeline::start(package.plan, package.folder, {}, options));
for (const float box : {1, 0}) {
  value(running->push(std::vector{filled({4}, 7), filled({1}, box)}));
  const auto output = *value(running->pop());
  if (output.ok()) show(output); else std::cout << output.error().message() << "\\n";
}
""",
    ),
    "docs/ready_functions.md": (
        """
namespace app = penstock::app;
app::App application{.name = "ready", .inputs = {{"picture", {}}}, .outputs = {{"image", "fit.image"}}};
const auto picture = Tensor::allocate(penstock::DType::kU8, {480, 640, 3});
""",
        """
const auto package = value(penstock::app::pack(application, {}));
std::cout << package.plan.model << " " << value(std::move(outputs))[0].type() << "\\n";
""",
    ),
}
PROGRAM = """
#include <algorithm>
#include <array>
#include <iostream>
#include "penstock/app/app.h"
#include "penstock/app/connect.h"
#include "penstock/backend/registry.h"
#include "penstock/gateway/serving.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/plan/package.h"
#include "penstock/ready/caller.h"
#include "penstock/ready/ready.h"

using penstock::Tensor;

template <typename T>
T value(penstock::Result<T> result) {
  if (result) return *std::move(result);
  std::cerr << result.error().message() << "\\n";
  std::exit(1);
}

Tensor filled(std::vector<std::int64_t> dims, float with) {
  auto tensor = Tensor::allocate(penstock::DType::kF32, std::move(dims));
  std::ranges::fill(tensor.as<float>(), with);
  return tensor;
}
void show(const auto& outputs) { std::cout << outputs[0].type() << " " << outputs[0].template as<float>()[0] << "\\n"; }

bool is_empty(const Tensor& box) { return box.as<float>()[0] == 0; }
void crop(const Tensor& image, const Tensor& box, Tensor& face) {
  std::ranges::copy_n(image.as<float>().begin() + static_cast<int>(box.as<float>()[0]), 2, face.as<float>().begin());
}
"""


def program_of_the_snippets() -> str:
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    with_cpp = sorted(page for page in pages if blocks(page, "cpp"))
    assert with_cpp == sorted({key.partition("#")[0] for key in AROUND})
    functions, calls = "", ""
    for page in dict.fromkeys(key.partition("#")[0] for key in AROUND):
        for number, snippet in enumerate(blocks(page, "cpp")):
            before, behind = AROUND.get(f"{page}#{number}", AROUND[page])
            name = f"{Path(page).stem}_{number}"
            functions += f'void {name}() {{\n{before}\n#line 1 "{page}"\n{snippet}\n{behind}\n}}\n'
            calls += f"{name}();"
    return f"{PROGRAM}{functions}int main() {{ {calls} }}\n"


def write_stand_in(folder: Path) -> None:
    """A network with the names of dtln_1: mask = |frame|, and a state."""
    mask, state = ("activation_2", "tf_op_layer_stack_2")
    frames, states = [1, 1, 257], [1, 2, 128, 2]
    nodes = [helper.make_node("Abs", ["input_2"], [mask]), helper.make_node("Neg", ["input_3"], [state])]
    inputs = [value("input_2", frames), value("input_3", states)]
    save(folder, "dtln_1", nodes, inputs, [value(mask, frames), value(state, states)])


@pytest.mark.skipif(not (shutil.which("c++") and shutil.which("cc")), reason="no C++ compiler here")
def test_the_cpp_runs(program, well, absolute, tmp_path: Path):
    libraries = program.resolve().parents[1] / "lib"
    if not (libraries / "libpenstock.so").exists():
        pytest.skip("no library beside the program")
    (tmp_path / "program.cc").write_text(program_of_the_snippets())
    (tmp_path / "apply.c").write_text(APPLY)
    write_stand_in(tmp_path)
    well("split", absolute, "-o", "model.penstock")

    def run(command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(f"cc -shared -fPIC -I'{ROOT}/src' apply.c -o libapply.so")
    run(f"c++ -std=c++20 -I'{ROOT}/src' program.cc -o program -L'{libraries}' -lpenstock -Wl,-rpath,'{libraries}'")
    assert run("./program").splitlines() == [
        "f32[1,3,8,8] 2",
        "f32[1,3,8,8] 2",
        "127.0.0.1 1",
        "no such model",
        "f32[1,3,8,8] 3",
        "f32[1,1,257] 8",
        "f32[1,2,128,2] -0",
        "f32[2] 7",
        "stage 'crop': frame 1: dropped: no face",
        "ready u8[640,640,3]",
    ]
