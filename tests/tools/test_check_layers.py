"""tools/check_layers.py: what it lets pass and what it reports, on small trees."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = """
base:
tensor:    base
graph:     base tensor
plugins/*: base
python:    base tensor
<onnx/>:   graph/
<nanobind/>: python/
<dlfcn.h>: base/open plugins/
"""


@pytest.fixture
def check(tmp_path):
    """check(files, layers) -> (exit code, output) of the script on a tree of these files."""

    def run(files: dict[str, str], layers: str = LAYERS) -> tuple[int, str]:
        (tmp_path / "layers.txt").write_text(layers)
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        script = ROOT / "tools/check_layers.py"
        done = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return run


def test_this_tree_holds_its_layers():
    done = subprocess.run([sys.executable, ROOT / "tools/check_layers.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_includes_downwards_pass(check):
    files = {
        "src/penstock/base/a.h": "#include <vector>\n",
        "src/penstock/tensor/b.h": '#include "penstock/base/a.h"\n',
        "src/penstock/graph/c.cc": '#include "penstock/tensor/b.h"\n#include <onnx/onnx_pb.h>\n',
        "plugins/x/p.cc": '#include "p.h"\n#include <dlfcn.h>\n#include "penstock/base/a.h"\n',
        "src/penstock/all.cc": '#include "penstock/graph/c.h"\n',
        "python/src/m.cc": '#include "m.h"\n#include <nanobind/nanobind.h>\n#include "penstock/tensor/b.h"\n',
    }
    assert check(files) == (0, "")


@pytest.mark.parametrize(
    ("file", "line", "says"),
    [
        ("src/penstock/base/a.h", '#include "penstock/graph/c.h"', "base may not include graph/"),
        ("src/penstock/base/a_test.cc", '#include "penstock/graph/c.h"', "may not include graph/"),
        ("src/penstock/base/a.cc", "  #  include <onnx/onnx_pb.h>", "belongs to graph/"),
        ("src/penstock/base/a.cc", "#include <dlfcn.h>", "belongs to base/open plugins/"),
        ("src/penstock/base/a.cc", "#include <nanobind/nanobind.h>", "belongs to python/"),
        ("python/src/m.cc", '#include "penstock/graph/c.h"', "python may not include graph/"),
        ("src/penstock/base/a.cc", '#include "b.h"', "write the path from penstock/ on"),
        ("src/penstock/graph/a.cc", '#include "onnx/onnx_pb.h"', "headers of others take <>"),
        ("src/penstock/graph/a.cc", '#include "penstock/all.h"', "above the modules"),
        ("src/penstock/graph/a.cc", "#include <penstock/base/a.h>", "take quotes"),
        ("src/penstock/stray/a.cc", "", "'stray' is not in layers.txt"),
        ("plugins/x/p.cc", '#include "penstock/graph/c.h"', "plugins/* may not include graph/"),
        ("plugins/x/p.cc", '#include "../y/p.h"', "write the path"),
    ],
)
def test_a_forbidden_include_is_named(check, file, line, says):
    code, output = check({file: f"{line}\n"})
    assert code == 1
    assert file in output and says in output


def test_a_folder_in_a_module_may_be_one_of_its_own(check):
    layers = LAYERS + "graph/inner: base\nplugins/y: base tensor\n"
    assert check({"src/penstock/graph/inner/a.cc": '#include "penstock/base/a.h"\n'}, layers) == (0, "")
    code, output = check({"src/penstock/graph/inner/a.cc": '#include "penstock/tensor/b.h"\n'}, layers)
    assert code == 1 and "graph/inner may not include tensor/" in output
    assert (
        "may not include graph/inner"
        in check({"src/penstock/graph/c.cc": '#include "penstock/graph/inner/a.h"\n'}, layers)[1]
    )


def test_a_plugin_may_have_a_line_of_its_own(check):
    layers = LAYERS + "plugins/y: base tensor\n"
    files = {"plugins/y/p.cc": '#include "penstock/tensor/b.h"\n', "plugins/x/p.cc": '#include "penstock/tensor/b.h"\n'}
    code, output = check(files, layers)
    assert code == 1 and output.count("may not include") == 1 and "plugins/* may not include tensor/" in output


def test_generated_messages_are_no_module_of_ours(check):
    assert check({"src/penstock/base/a.cc": '#include "penstock/graph/c.pb.h"\n'}) == (0, "")


def test_tests_may_include_any_outside_header(check):
    assert check({"src/penstock/base/a_test.cc": "#include <dlfcn.h>\n"}) == (0, "")


def test_tests_may_include_what_tests_share(check):
    line = '#include "tests/support/fake.h"\n'
    assert check({"src/penstock/base/a_test.cc": line}) == (0, "")
    assert check({"src/penstock/base/a.cc": line})[0] == 1


def test_a_cycle_of_modules_is_refused(check):
    code, output = check({}, "a: b\nb: a\n")
    assert code == 1
    assert output == "layers.txt:1: a: not defined above it: b\n"


def test_a_cycle_of_headers_is_refused(check):
    code, output = check(
        {
            "src/penstock/base/a.h": '#include "penstock/base/b.h"\n',
            "src/penstock/base/b.h": '#include "penstock/base/a.h"\n',
        }
    )
    assert code == 1
    assert "penstock/base/a.h -> penstock/base/b.h -> penstock/base/a.h" in output
