"""Reports of builds that nobody made, and pages of them, of any size, with all that a page can show."""

import hashlib
import json
import random
import subprocess
from pathlib import Path

import onnx
from onnx import helper

Nodes = list[dict]


def add(nodes: Nodes, op: str, inputs: list[int]) -> int:
    nodes.append({"name": f"/block{len(nodes) // 40}/{op.lower()}_{len(nodes)}", "op": op, "inputs": inputs})
    return len(nodes) - 1


def residual_block(nodes: Nodes, x: int) -> int:
    y = add(nodes, "Conv", [add(nodes, "Relu", [add(nodes, "Conv", [x])])])
    return add(nodes, "Relu", [add(nodes, "Add", [y, x])])


def transformer_block(nodes: Nodes, x: int) -> int:
    """Reads node 1, a mask, in each block."""
    norm = add(nodes, "LayerNormalization", [x])
    query, key, value = (add(nodes, "MatMul", [norm]) for _ in range(3))
    scores = add(nodes, "MatMul", [query, add(nodes, "Transpose", [key])])
    weights = add(nodes, "Softmax", [add(nodes, "Add", [scores, 1])])
    y = add(nodes, "Add", [add(nodes, "MatMul", [weights, value]), x])
    up = add(nodes, "Gelu", [add(nodes, "MatMul", [add(nodes, "LayerNormalization", [y])])])
    return add(nodes, "Add", [add(nodes, "MatMul", [up]), y])


def irregular_block(nodes: Nodes, x: int, chance: random.Random) -> int:
    """No two are alike, and some of their values go around several."""
    near = range(max(0, len(nodes) - 50), len(nodes))
    sources = [x if chance.random() < 0.6 else chance.choice(near) for _ in range(chance.randint(2, 6))]
    branches = [add(nodes, "Conv", [add(nodes, chance.choice(["Conv", "MaxPool", "Relu"]), [one])]) for one in sources]
    return add(nodes, "Concat", branches)


def tangled_node(nodes: Nodes, chance: random.Random) -> int:
    """Reads several of the last ones, wherever they are: no placement keeps such edges apart."""
    near = range(max(0, len(nodes) - 50), len(nodes))
    sources = chance.sample(near, min(len(near), chance.randint(2, 6)))
    return add(nodes, chance.choice(["Conv", "Relu", "Add"]), sorted(sources))


def dense_node(nodes: Nodes) -> int:
    """Reads all nodes of its block before it, as DenseNet's do."""
    block = len(nodes) - len(nodes) % 40
    return add(nodes, "Conv", list(range(max(0, block - 1), len(nodes))))


def network(kind: str, count: int) -> Nodes:
    chance = random.Random(7)
    nodes: Nodes = []
    x = add(nodes, "Conv", [])
    if kind == "transformer":
        add(nodes, "Cast", [])
    while len(nodes) < count:
        if kind == "residual":
            x = residual_block(nodes, x)
        elif kind == "transformer":
            x = transformer_block(nodes, x)
        elif kind == "tangled":
            x = tangled_node(nodes, chance)
        elif kind == "dense":
            x = dense_node(nodes)
        else:
            x = irregular_block(nodes, x, chance)
    del nodes[count:]
    for i, node in enumerate(nodes):
        node |= {"stage": int(i >= count / 2), "backend": ["openvino", "onednn"][i * 4 // count % 2]}
        node["seconds"] = chance.uniform(1e-6, 1e-4)
        node["limit_seconds"] = 0 if node["op"] in ("Transpose", "Cast") else 0.4 * node["seconds"]
    return nodes


def parts_of(nodes: Nodes) -> list[dict]:
    """Four of them."""
    parts = []
    for quarter in range(4):
        ids = [i for i in range(len(nodes)) if i * 4 // len(nodes) == quarter]
        first = nodes[ids[0]]
        seconds = sum(nodes[i]["seconds"] for i in ids)
        trials = [
            trial(first["backend"], seconds),
            trial("onnxruntime", 1.5 * seconds),
            trial("other", 0, failure="no kernel for <b>this</b> & </script> that"),
        ]
        part = {"stage": first["stage"], "backend": first["backend"], "nodes": ids, "trials": trials}
        part |= {"seconds": seconds, "limit_seconds": 0.3 * seconds, "bound": "computing"}
        parts.append(part | {"label": f"{first['name']} .. {nodes[ids[-1]]['name']}", "reason": "33 % less time"})
    return parts


def trial(backend: str, seconds: float, failure: str = "") -> dict:
    interval = {"seconds": seconds, "low": 0.97 * seconds, "high": 1.04 * seconds}
    return {"backend": backend, **interval, "pieces": 1, "failure": failure}


def way(name: str, rate: float, failure: str = "") -> dict:
    latency = 1 / rate if rate else 0
    figures = {"frames_per_second": rate, "latency_seconds": latency, "spread": 0.02, "worst_ratio": 0.1}
    figures["rounds"] = [0.98 * rate, rate, 1.02 * rate]
    return {"name": name, "what": f"how {name} runs", "hash": "", **figures, "failure": failure}


def trace() -> dict:
    """Two workers, the second a little after the first, 1 ms a frame and idle for a tenth of it."""
    lanes = []
    for stage in range(2):
        spans = []
        for frame in range(12):
            start = (frame + stage / 2) * 1e-3
            spans.append({"frame": frame, "ready": start - 2e-4, "start": start, "end": start + 9e-4})
        lanes.append({"name": f"stage{stage}/0 on cpu:{stage}", "spans": spans})
    return {"seconds": 12.5e-3, "frames": 12, "lanes": lanes}


def limit(seconds: float) -> dict:
    """Of a frame that takes so long on two workers together; 30 % of what they could do."""
    rates = {"flops_per_second": 2e11, "bytes_per_second": 5e10}
    handovers = [{"from": part, "to": part + 1, "bytes": 4096 * (part + 1)} for part in range(3)]
    figures = {"seconds": 0.3 * seconds / 2, "bound": "computing", "flops": 2e9, "bytes": 3 << 20, **rates}
    return figures | {"level": "L3", "workers": 2, "handovers": handovers}


def report(kind: str = "transformer", count: int = 62, **changes) -> dict:
    nodes = network(kind, count)
    rate = 1.6 / sum(node["seconds"] for node in nodes)
    return {
        "version": 8,
        "model": f"{kind}.onnx",
        "goal": "throughput",
        "devices": ["cpu:0", "cpu:1"],
        "chosen": "two stages",
        "period_seconds": 1 / rate,
        "latency_seconds": 0,
        "lower_bound_seconds": 0.8 / rate,
        "gap": 0.25,
        "fraction_of_limit": 0.3,
        "limit": limit(2 / rate),
        "tolerance": 1e-3,
        "outputs": [{"name": "y", "allowed": "1e-3 of each value", "doubt": ""}],
        "ways": [
            way("openvino on each device", 0.9 * rate),
            way("two stages", rate),
            way("onednn on each device", 0, failure="wrong output: y of frame 0"),
        ],
        "simple": [way("onnxruntime", 0.4 * rate), way("openvino-throughput", 0.9 * rate), way("penstock", rate)],
        "parts": parts_of(nodes),
        "notes": ["left out: other: it is <i>not there</i>"],
        "nodes": nodes,
        "trace": trace(),
        "networks": [],
    } | changes


def application(chosen: str = "planned", **changes) -> dict:
    """Of two networks and a function; one of the networks stands in two stages."""
    nodes = []
    for i, (name, op) in enumerate(
        [("crop", "function"), ("detect/0", "network"), ("detect/1", "network"), ("landmarks", "network")]
    ):
        backend = "function" if op == "function" else "openvino"
        inputs = [i - 1] if i else []
        node = {"name": name, "op": op, "inputs": inputs, "stage": i, "backend": backend, "seconds": 1e-3}
        nodes.append(node | {"limit_seconds": 0})
    parts = []
    for node in nodes:
        part = {"stage": node["stage"], "backend": node["backend"], "nodes": [node["stage"]], "trials": []}
        part |= {"seconds": 0, "limit_seconds": 0, "bound": "", "label": node["name"]}
        parts.append(part | {"reason": "1000 us a frame, on cpu:0"})
    networks = [
        {"node": "detect"} | report("residual", 21),
        {"node": "landmarks"} | report("transformer", 62),
    ]
    simple = [way("as it is written", 300), way("overlap only", 250), way("penstock", 500)]
    made = {"model": "app.yaml", "chosen": chosen, "nodes": nodes, "parts": parts, "networks": networks}
    made |= {"ways": [*simple[:2], way("planned", 500)], "simple": simple, "period_seconds": 2e-3}
    made |= {"limit": limit(1.0) | {"seconds": 0, "handovers": []}, "lower_bound_seconds": 0}
    return report(**(made | changes))


def package_of(program: Path, folder: Path) -> Path:
    """A package of a network of one operator, for reports to be put into."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], "relu")], "one", [value("x", 1, [1, 4])], [value("y", 1, [1, 4])]
    )
    model = folder / "one.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    package = folder / "one.penstock"
    subprocess.run([str(program), "split", str(model), "-o", str(package)], check=True, capture_output=True)
    return package


def put_report(package: Path, report: dict) -> None:
    """As if the package had been built."""
    (package / "build.json").write_text(json.dumps(report))
    plan = json.loads((package / "plan.json").read_text())
    plan["files"]["build.json"] = hashlib.sha256((package / "build.json").read_bytes()).hexdigest()
    (package / "plan.json").write_text(json.dumps(plan))


def write_page(program: Path, package: Path, report: dict, page: Path) -> Path:
    """What `penstock explain --html` makes of the report."""
    put_report(package, report)
    subprocess.run([str(program), "explain", str(package), "--html", str(page)], check=True)
    return page
