#!/usr/bin/env python3
"""What a stage at `penstock serve` costs beside bare gRPC: remote_bench against a model that computes nothing.

bench/remote.py [--build build/release]
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    bin_folder = parser.parse_args().build / "bin"
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "same.onnx"
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", ends[:1], ends[1:])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
        command = [bin_folder / "penstock", "serve", model, "--listen", "127.0.0.1:0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            said = next(found for line in server.stdout if (found := re.search(r"gRPC on (\S+)", line)))
            subprocess.run([bin_folder / "remote_bench", f"oip://{said[1]}/same"], check=True)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
