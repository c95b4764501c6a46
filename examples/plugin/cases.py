"""Tries a backend on ONNX's own operator cases, each in processes of its own: cases.py BACKEND [PATTERN].

A case is refused by the backend with a sentence, or its outputs must be what the case expects: of one frame, and of 50
frames over two instances at once. What crashes, hangs or gives other values is listed, and the exit code is 1. Needs
`penstock` in the path, with PENSTOCK_PLUGIN_PATH, and Python's onnx<1.23. PATTERN: a regular expression of names.
"""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

CASES = Path(onnx.__file__).parent / "backend/test/data/node"
FRAMES, SECONDS = 50, 60


class Refused(Exception):
    """The backend does not take the case, and says why."""


class Wrong(Exception):
    """It should have refused the case."""


def penstock(*arguments):
    """Runs the program. A sentence is a refusal; anything else that is no success is wrong."""
    command = ["penstock", *map(str, arguments)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Wrong(f"hung for {SECONDS} s") from None
    if done.returncode == 1 and "penstock: error: " in done.stderr:
        raise Refused(done.stderr.partition("penstock: error: ")[2].strip())
    if done.returncode != 0:
        raise Wrong(f"ended with {done.returncode}: {done.stderr.strip()[-200:]}")


def expected_of(case):
    """The outputs by name, as the case has them; refused where one is no plain tensor."""
    model = onnx.load(case / "model.onnx")
    values = {}
    for index, output in enumerate(model.graph.output):
        if not output.type.HasField("tensor_type"):
            raise Refused("outputs that are no tensors")
        tensor = onnx.load_tensor(case / f"test_data_set_0/output_{index}.pb")
        values[output.name] = numpy_helper.to_array(tensor)
    return values


def check(values, folder):
    for name, value in values.items():
        file = folder / (re.sub(r"[^\w.-]", "_", name) + ".npy")
        if not file.exists():
            raise Refused("outputs of a type that .npy lacks")
        found = np.load(file, allow_pickle=False)
        if found.shape != value.shape or found.dtype != value.dtype:
            raise Wrong(f"output '{name}': expected {value.dtype}{value.shape}, found {found.dtype}{found.shape}")
        close = np.issubdtype(value.dtype, np.floating)
        if not (np.allclose(found, value, 1e-3, 1e-6, equal_nan=True) if close else np.array_equal(found, value)):
            raise Wrong(f"output '{name}': other values than the case expects")


def run(backend, case, folder):
    values, inputs = expected_of(case), case / "test_data_set_0"
    package = folder / "case.penstock"
    penstock(
        "split", case / "model.onnx", "--as-is", "--backend", backend, "--replicas", 2, "--unpinned", "-o", package
    )
    penstock("run", package, "--inputs", inputs, "--frames", 1, "--output", folder / "one")
    check(values, folder / "one")
    penstock("run", package, "--inputs", inputs, "--frames", FRAMES, "--output", folder / "many")
    for frame in sorted((folder / "many").iterdir()):
        check(values, frame)


def main(backend, pattern=""):
    listed = subprocess.run(["penstock", "backends"], capture_output=True, text=True, check=True).stdout
    if not re.search(rf"^{re.escape(backend)} ", listed, re.MULTILINE):
        sys.exit(f"cases: no backend '{backend}':\n{listed}")
    if not CASES.is_dir():
        sys.exit(f"cases: onnx {onnx.__version__} lacks its cases ('{CASES}'): pip install 'onnx<1.23'")
    outcomes, reasons, wrong = Counter(), Counter(), []
    cases = sorted(case for case in CASES.iterdir() if re.search(pattern, case.name))
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                run(backend, case, Path(folder))
                outcomes["passed"] += 1
            except Refused as reason:
                outcomes["refused"] += 1
                reasons[re.sub(r"'[^']*'|\S+/\S+|\d+", "…", str(reason))[:150]] += 1
            except Wrong as reason:
                outcomes["wrong"] += 1
                wrong.append(f"{case.name}: {reason}")
    print(", ".join(f"{outcomes[name]} {name}" for name in ("passed", "refused", "wrong")))
    for reason, count in reasons.most_common(10):
        print(f"{count:5} refused: {reason}")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return int(bool(wrong) or not outcomes["passed"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) in (2, 3) else __doc__)
