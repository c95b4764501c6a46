"""Functions of Python modules in the program: an application's `functions: functions.py`."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

MODULE = """
import numpy as np
import penstock

started = 0


def ratio(x):
    print("never among the output")
    if x[1] == 0:
        return penstock.Drop("nothing to divide by")
    return divided(x)


def divided(x):
    if x[1] < 0:
        raise ValueError("negative\\nby far")
    return x[:1] / x[1]


def total(x):
    global started
    started += 1
    return np.array([started])


Function = penstock.Function
PAIR = {"x": "f32[2]"}
ratio_ = Function("ratio", ratio, PAIR, {"y": "f32[1]"})
total_ = penstock.Function("total", total, PAIR, {"number": "i64[1]"}, stateful=True)
"""
LINE = MODULE.splitlines().index("    return divided(x)") + 1
RAISED = MODULE.splitlines().index('        raise ValueError("negative\\nby far")') + 1
APP = """penstock_app: 1
functions: functions.py
inputs: {x: 'f32[2]'}
nodes:
  ratio: {function: ratio, inputs: {x: x}}
  total: {function: total, inputs: {x: x}}
outputs: {y: ratio.y, number: total.number}
"""


@pytest.fixture(autouse=True)
def package(program) -> Path:
    folder = program.resolve().parents[1] / "lib/python/penstock"
    if not list(folder.glob("_core.*.so")):
        pytest.skip("no Python package beside the program: build target penstock_python")
    return folder


@pytest.fixture
def app(tmp_path) -> Path:
    (tmp_path / "functions.py").write_text(MODULE)
    (tmp_path / "app.yaml").write_text(APP)
    for i, x in enumerate([(6, 2), (1, 0), (1, -1), (9, 2)]):
        np.save(tmp_path / f"{i}.npy", np.array(x, np.float32))
    return tmp_path / "app.yaml"


FRAMES = [part for i in range(4) for part in ("--input", f"x={i}.npy")]


def lines_of(done) -> list[dict]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_functions_of_a_module_run_in_the_program_and_from_a_package(penstock, well, app, tmp_path):
    done = penstock("run", app, *FRAMES, "--output", "-")
    first, dropped, failed, last = lines_of(done)
    assert (first["outputs"], last["outputs"]["y"]) == ({"y": [3], "number": [1]}, [4.5])
    assert 2 <= last["outputs"]["number"][0] <= 4  # A frame that failed beside it may be left out.
    assert dropped["error"]["reason"] == "dropped: nothing to divide by"
    assert failed["error"]["message"] == (
        "stage 'ratio': frame 2: function 'ratio': ValueError: negative by far "
        f"(functions.py, line {LINE} in ratio, line {RAISED} in divided)"
    )
    assert "never among the output" in done.err
    well("split", app, "-o", "app.penstock")
    for name in "app.yaml", "functions.py":
        (tmp_path / name).unlink()
    (tmp_path / "app.penstock").rename(tmp_path / "moved.penstock")
    again = lines_of(penstock("run", "moved.penstock", *FRAMES, "--output", "-"))
    assert [again[0], again[3]["outputs"]["y"]] == [first, last["outputs"]["y"]]
    assert not list(tmp_path.rglob("__pycache__"))


def test_a_node_may_name_the_module_itself(well, app):
    app.write_text(
        APP.replace("functions: functions.py\n", "")
        .replace("function: ratio", "function: functions.py, name: ratio")
        .replace("function: total", "function: ./functions.py, name: total")
    )
    assert lines_of(well("run", app, "--input", "x=0.npy", "--output", "-"))[0]["outputs"]["y"] == [3]


@pytest.mark.parametrize(
    ("module", "told"),
    [
        ("import penstock\nraise OSError('no weights')", "OSError: no weights (functions.py, line 2 in <module>)"),
        ("x = = 3", "SyntaxError: invalid syntax (functions.py, line 1)"),
        ("import absent", "ModuleNotFoundError: No module named 'absent' (functions.py, line 1 in <module>)"),
        ("import sys\nsys.exit(3)", "SystemExit: 3 (functions.py, line 2 in <module>)"),
        ("half = 3", "declares no function: expected a name of the module such as half = penstock.Function('half', "),
        (MODULE.replace('"ratio"', '"ration"'), "no function 'ratio'; there are: 'ration', 'total'"),
        (MODULE.replace("f32[2]", "f32[2"), "function 'ratio': inputs: 'x': expected a type such as f32[1,3,224,224]"),
        (MODULE.replace("f32[2]", "f32[3]"), "input 'x': expected f32[3], found f32[2] from 'x'"),
    ],
    ids=["raises", "syntax", "import", "exit", "nothing", "name", "type", "other type"],
)
def test_what_is_wrong_with_a_module_is_told_with_the_nodes_line(penstock, app, tmp_path, module, told):
    (tmp_path / "functions.py").write_text(module)
    error = penstock("run", app).error
    assert error.startswith(f"{app}:5: node 'ratio': "), error
    assert told in error


@pytest.mark.parametrize(("beside", "name"), [("helper.py", "helper.py"), ("helper/part.py", "helper")])
def test_a_module_that_lies_beside_it_is_told_with_what_to_do(penstock, app, tmp_path, beside, name):
    (tmp_path / beside).parent.mkdir(exist_ok=True)
    (tmp_path / beside).write_text("")
    (tmp_path / "functions.py").write_text("import helper.part\n" + MODULE)
    error = penstock("run", app).error
    assert "ModuleNotFoundError: No module named 'helper' (functions.py, line 1 in <module>)" in error
    assert f"; '{name}' lies beside it, but a package carries 'functions.py' alone: write into that file" in error
    assert "or install 'helper' in the Python that runs it" in error


def test_a_module_that_is_not_there_is_told_with_its_line(penstock, app, tmp_path):
    (tmp_path / "functions.py").unlink()
    assert penstock("run", app).error == f"{app}:2: functions: no such file: '{tmp_path}/functions.py'"


def test_a_module_is_native_code_to_who_allows_none(penstock, app):
    refused = penstock("run", app, "--no-native-code").error
    assert "native code is not allowed here; if you trust it, leave out --no-native-code" in refused


def test_without_python_or_numpy_one_sentence_says_so(penstock, app, tmp_path):
    def error(**environment):
        said = penstock(
            "run", app, env={"PENSTOCK_PYTHON": "", "VIRTUAL_ENV": "", "PYTHONPATH": ""} | environment
        ).error
        before = f"{app}:5: node 'ratio': function library 'functions.py': Python '"
        assert said.startswith(before), said
        assert said.endswith("; PENSTOCK_PYTHON=PROGRAM takes another Python")
        return said.removeprefix(before)

    assert error(PENSTOCK_PYTHON="/nowhere/python3").startswith(
        "/nowhere/python3' (from PENSTOCK_PYTHON): no such prog"
    )
    assert error(VIRTUAL_ENV="/nowhere").startswith("/nowhere/bin/python3' (from VIRTUAL_ENV): no such program; ")
    other = tmp_path / "python9.9"
    other.write_text("#!/bin/sh\n")
    assert "it has no library libpython9.9.so.1.0 beside it or in the system" in error(PENSTOCK_PYTHON=str(other))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    assert "(from VIRTUAL_ENV): No module named 'numpy'; install Penstock's wheel" in error(
        VIRTUAL_ENV=str(tmp_path / "bare")
    )


def test_a_package_of_the_tree_that_is_not_built_is_said_to_be(program, app, tmp_path):
    # As script/demo leaves it: the package's files lie beside the library, its module is not there.
    there = program.resolve().parent.parent
    shutil.copytree(
        there / "lib", tmp_path / "tree/lib", symlinks=True, ignore=shutil.ignore_patterns("_core.*", "*.a")
    )
    (tmp_path / "tree/bin").mkdir()
    copied = Path(shutil.copy(program, tmp_path / "tree/bin"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    environment = {"VIRTUAL_ENV": str(tmp_path / "bare"), "PENSTOCK_PYTHON": "", "PYTHONPATH": ""}
    environment["LD_LIBRARY_PATH"] = str(tmp_path / "tree/lib")  # The program was linked with the other's.
    done = subprocess.run(
        [copied, "run", app], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "No module named 'penstock'; build the target penstock_python in this tree, or install " in done.stderr


def test_no_python_of_the_working_folder_is_taken(penstock, app, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text("#!/bin/sh\n")
    error = penstock("run", app, env={"VIRTUAL_ENV": "", "CONDA_PREFIX": "", "PATH": str(tmp_path / "nowhere")})
    assert "'bin/python3'" not in error.out + error.err


def test_a_python_is_named_as_a_shell_finds_it_and_tried_before_it_begins(penstock, app, tmp_path):
    known = {"VIRTUAL_ENV": "", "PATH": f"{tmp_path / 'tools'}:/usr/bin:/bin"}
    (tmp_path / "tools").mkdir()
    shim = tmp_path / "tools/mine"
    shim.write_text("#!/bin/sh\n")
    said = penstock("run", app, env=known | {"PENSTOCK_PYTHON": "mine"}).error
    assert f"Python '{shim}' (from PENSTOCK_PYTHON): '{shim}' starts another Python, which cannot be told" in said
    absent = penstock("run", app, env=known | {"PENSTOCK_PYTHON": "python9"}).error
    assert "no program 'python9' in $PATH, which PENSTOCK_PYTHON names" in absent
    real = Path(sys.executable).resolve()
    broken = penstock("run", app, env={"PENSTOCK_PYTHON": str(real), "PYTHONHOME": "/nowhere"}).error
    assert "it cannot begin: look what '" in broken or "it has no library lib" in broken


def test_a_module_runs_as_if_it_were_imported(well, app, tmp_path):
    typed = "def typed(x: int) -> int: return x\nassert typed.__annotations__['x'] is int\n"
    (tmp_path / "functions.py").write_text(MODULE + typed)
    assert lines_of(well("run", app, "--input", "x=0.npy", "--output", "-"))[0]["outputs"]["y"] == [3]


def test_a_function_that_never_returns_costs_its_frame(penstock, app, tmp_path):
    (tmp_path / "functions.py").write_text(MODULE.replace('raise ValueError("negative\\nby far")', "while True: pass"))
    app.write_text(APP.replace("inputs: {x: x}}", "inputs: {x: x}, max_run_ms: 300, max_left_behind: 1}", 1))
    done = penstock("run", app, *FRAMES, "--output", "-")
    _, _, hung, last = lines_of(done)
    assert done.code == 1
    assert "stage 'ratio': frame 2: " in hung["error"]["message"]
    assert last["outputs"]["y"] == [4.5]


def test_an_endless_recursion_is_told_in_a_short_line(penstock, app, tmp_path):
    (tmp_path / "functions.py").write_text(MODULE.replace("    return x[:1] / x[1]", "    return divided(x)"))
    message = lines_of(penstock("run", app, "--input", "x=0.npy", "--output", "-"))[0]["error"]["message"]
    assert "RecursionError: maximum recursion depth exceeded" in message
    assert " more, " in message and len(message) < 400


KEPT = """
import atexit, tempfile
kept = open("kept.csv", "w")
folder = tempfile.TemporaryDirectory(prefix="left_", dir=".")
atexit.register(lambda: open("bye", "w").close())


def ratio_and_note(x):
    kept.write(f"{x[0]}\\n")
    return ratio(x)


noting = penstock.Function("noting", ratio_and_note, PAIR, {"y": "f32[1]"}, stateful=True)
"""


def test_a_module_ends_as_a_program_of_python_does(penstock, app, tmp_path):
    (tmp_path / "functions.py").write_text(MODULE + KEPT)
    app.write_text(APP.replace("function: ratio", "function: noting"))
    penstock("run", app, *FRAMES, "--output", "-")
    assert (tmp_path / "kept.csv").read_text().splitlines() == ["6.0", "1.0", "1.0", "9.0"]
    assert (tmp_path / "bye").exists()
    assert not list(tmp_path.glob("left_*"))
    (tmp_path / "bye").unlink()
    built = penstock("build", app, "--budget", "1s", "-o", "built.penstock")  # Begins Python in another thread.
    assert (tmp_path / "bye").exists() and "Python does not end" not in built.err


@pytest.mark.parametrize(
    ("at_end", "told"),
    [
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n", "Python does not end"),
        ("import atexit\natexit.register(lambda: 1 / 0)\n", "ZeroDivisionError"),
    ],
)
def test_how_a_module_ends_changes_no_results(well, app, tmp_path, at_end, told):
    (tmp_path / "functions.py").write_text(MODULE + at_end)
    done = well("run", app, "--input", "x=0.npy", "--output", "-")
    assert lines_of(done)[0]["outputs"]["y"] == [3]
    assert told in done.err


POOL = """
import multiprocessing


def by_two(x):
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return np.array([sum(pool.map(int, [x[0], x[1]]))], np.float32)


by_two_ = penstock.Function("by_two", by_two, PAIR, {"y": "f32[1]"})
"""


def test_the_processes_of_a_module_end_when_it_ends_them(well, app, tmp_path):
    (tmp_path / "functions.py").write_text(MODULE + POOL)
    app.write_text(APP.replace("function: ratio", "function: by_two"))
    done = well("run", app, "--input", "x=0.npy", "--frames", "10", "--output", "-", timeout=60)
    assert [line["outputs"]["y"] for line in lines_of(done)] == [[8]] * 10


def test_beside_a_module_errors_speak_the_programs_words(penstock, app, tmp_path):
    (tmp_path / "functions.py").write_text(MODULE.replace("return x[:1] / x[1]", "raise ValueError('never')"))
    message = penstock("build", app, "--budget", "1s", "-o", "built.penstock").error
    assert "--input" in message and "(frames)" not in message


@contextlib.contextmanager
def served(program, folder: Path, *arguments):
    """The address of a server's HTTP; it must end well."""
    command = [program, "serve", *arguments, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        yield next(found[1] for line in server.stdout if (found := re.fullmatch(r"penstock: HTTP on (\S+)\n", line)))
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.wait()


def test_functions_of_a_module_are_served(program, well, app, tmp_path):
    well("split", app, "-o", "app.penstock")
    with served(program, tmp_path, "app.penstock") as address:

        def infer(*x):
            body = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": x}]}
            request = urllib.request.Request(f"http://{address}/v2/models/app/infer", json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=60) as answer:
                return {output["name"]: output["data"] for output in json.load(answer)["outputs"]}

        assert infer(8, 2)["y"] == [4]
        with pytest.raises(urllib.error.HTTPError) as refused:
            infer(8, -2)
        assert f"line {RAISED} in divided)" in refused.value.read().decode()
        assert infer(8, 4)["y"] == [2]


def test_the_documented_module_runs(well, tmp_path):
    page = (ROOT / "docs/functions.md").read_text(encoding="utf-8")
    for language, name in ("python", "functions.py"), ("yaml", "app.yaml"):
        blocks = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        [text] = [block for block in blocks if f"# {name}\n" in block]
        (tmp_path / name).write_text(text)
    np.save(tmp_path / "scores.npy", np.full((1, 10), 3, np.float32))
    [frame] = lines_of(well("run", "app.yaml", "--input", "scores=scores.npy", "--output", "-"))
    assert frame["outputs"]["half"] == [[1.5] * 10]


@pytest.mark.sweep(of=6)
def test_the_example_runs_is_built_and_right(well, tmp_path):
    folder = ROOT / "examples/module"
    for file in folder.iterdir():
        shutil.copy(file, tmp_path)
    subprocess.run([sys.executable, ROOT / "examples/users/vision/make.py"], cwd=tmp_path, check=True)
    pictures = ("--input", "picture=pictures")
    frames = lines_of(well("run", "app.yaml", *pictures, "--output", "-"))
    assert [frame["outputs"]["place"] for frame in frames[:2]] == [[12, 14], [17, 17]]
    marked = np.array(frames[0]["outputs"]["marked"])
    assert marked.shape == (60, 80, 3)
    assert (marked[14, 5:20] == 255).all()
    well("build", "app.yaml", "-o", "app.penstock", "--budget", "1s", *pictures)
    assert "verified: 12 frames, 0 problems" in well("verify", "app.penstock", *pictures).out
