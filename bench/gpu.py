#!/usr/bin/env python3
"""Prints what the cuda backend takes for networks on one GPU, beside PyTorch, eager and compiled, in one run.

    bench/gpu.py [--penstock build/release/bin/penstock] [--seconds 3] [--batches 1,16] [--tf32] [NETWORK ...]

Networks: resnet50, mobilenetv2 and vit_tiny of torchvision, bert_tiny (a transformer of two layers over embeddings),
with seeded random weights, exported to ONNX: all compute the same function. Frames come from the host and their
results go back there. Penstock: a pipeline of one stage on cuda:0, as many lanes as it takes, by `penstock bench`.
PyTorch: a loop over pinned frames that waits for each result; compiled: torch.compile with CUDA graphs (mode
reduce-overhead). All are strict f32 unless --tf32 is given, which allows it to all. Ends with 0 and a sentence where
there is no PyTorch or no GPU.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    import torch
except ImportError:
    sys.exit(print("bench/gpu.py: needs PyTorch, which is not installed here"))

NETWORKS = ("resnet50", "mobilenetv2", "bert_tiny", "vit_tiny")


class Logits(torch.nn.Module):
    """A transformer whose input is a batch of embeddings and whose output is one tensor."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def network_of(name: str, batch: int) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    picture = torch.randn(batch, 3, 224, 224)
    if name == "bert_tiny":
        return Logits(128, 2, 2).eval(), torch.randn(batch, 128, 128)
    import torchvision

    if name == "resnet50":
        return torchvision.models.resnet50(weights=None).eval(), picture
    if name == "mobilenetv2":
        return torchvision.models.mobilenet_v2(weights=None).eval(), picture
    vit = torchvision.models.VisionTransformer(224, 16, num_layers=12, num_heads=3, hidden_dim=192, mlp_dim=768)
    return vit.eval(), picture


def rate_of(step: Callable[[], Any], seconds: float) -> float:
    """Calls a second."""
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    count, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + seconds:
        for _ in range(10):
            step()
        count += 10
    torch.cuda.synchronize()
    return count / (time.perf_counter() - begin)


def of_torch(network: torch.nn.Module, frame: torch.Tensor, seconds: float) -> float:
    pinned = frame.pin_memory()
    result = network(frame.cuda()).cpu().pin_memory()

    def step() -> None:
        result.copy_(network(pinned.cuda(non_blocking=True)), non_blocking=True)
        torch.cuda.current_stream().synchronize()

    return rate_of(step, seconds)


def of_penstock(program: str, model: Path, folder: Path, seconds: float, options: list[str]) -> float:
    package = folder / f"{model.stem}.penstock"
    split = [program, "split", model, "--devices", "cuda:0", "--backend", "cuda", "-o", package, *options]
    subprocess.run(split, check=True, capture_output=True)
    bench = [program, "bench", package, "--json", "--seconds", str(3 * seconds)]
    done = subprocess.run(bench, check=True, capture_output=True, text=True)
    (own,) = [run for run in json.loads(done.stdout)["runs"] if run["name"] == "penstock"]
    return float(own["frames_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", default="build/release/bin/penstock")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit(print("bench/gpu.py: needs an NVIDIA GPU, and PyTorch sees none"))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.tf32
    torch.backends.cudnn.benchmark = True
    warnings.simplefilter("ignore")  # Of the exporter and the compiler.
    torch.backends.mha.set_fastpath_enabled(False)  # It cannot be exported.
    torch.set_grad_enabled(False)
    options = ["--backend-option", "cuda:tf32=1"] if arguments.tf32 else []
    print(f"{torch.cuda.get_device_name()}, calls a second, {'tf32' if arguments.tf32 else 'f32'}")
    print(f"{'network':14}{'batch':>6}{'penstock':>10}{'eager':>10}{'compiled':>10}")
    with tempfile.TemporaryDirectory() as made:
        for name in arguments.networks:
            for batch in map(int, arguments.batches.split(",")):
                network, frame = network_of(name, batch)
                model = Path(made) / f"{name}_{batch}.onnx"
                torch.onnx.export(network, (frame,), str(model), dynamo=False, opset_version=17)
                own = of_penstock(arguments.penstock, model, Path(made), arguments.seconds, options)
                network = network.cuda()
                eager = of_torch(network, frame, arguments.seconds)
                compiled = of_torch(torch.compile(network, mode="reduce-overhead"), frame, arguments.seconds)
                print(f"{name:14}{batch:6}{own:10.1f}{eager:10.1f}{compiled:10.1f}", flush=True)


main()
