"""Recordings of pipelines that nobody ran, with all that the page of a running pipeline can show."""

import json
import math
from pathlib import Path


def about(report: dict | None = None, **changes) -> dict:
    stages = [
        {"name": f"stage{i}", "devices": [f"cpu:{i}"], "cpus": [i], "backend": "openvino", "replicas": 1, "lanes": 1}
        for i in range(2)
    ]
    edges = [
        {"name": "input -> stage0", "from": -1, "to": [0]},
        {"name": "stage0 -> stage1", "from": 0, "to": [1]},
        {"name": "stage1 -> output", "from": 1, "to": [-2]},
    ]
    return {
        "penstock": "0.0",
        "model": "<b>made</b> up",
        "generation": 1,
        "started_ms": 1_700_000_000_000,
        "predicted": {"period_seconds": 0.01, "latency_seconds": 0.03},
        "stages": stages,
        "edges": [edge | {"capacity": 8, "policy": "block", "bytes": 4096} for edge in edges],
        "cpus": [0, 1],
        "memory_bytes": 3 * 4096,
        "report": report,
    } | changes


def sample(n: int, errors: int = 0, **changes) -> dict:
    wave = 0.5 + 0.4 * math.sin(n / 9)
    stage = {"frames": 50 * n, "errors": errors, "drops": 0, "queue_us": [20, 90], "infer_us": [9000, 9900]}
    stage["drift"] = [1.43, True] if n > 10 else None
    return {
        "n": n,
        "t": n / 2,
        "pushed": 50 * n + 5,
        "ok": 50 * n - errors,
        "errors": errors,
        "drops": 0,
        "cancelled": 0,
        "in_flight": 5,
        "fps": 90 + 10 * wave,
        "latency_us": [30_000 * wave, 40_000 * wave, 50_000 * wave, 60_000],
        "rss": 3e8,
        "cpu": 1.7,
        "stages": [stage | {"load": wave}, stage | {"load": 0.9}],
        "edges": [{"depth": d, "drops": 0} for d in (8, 3, 0)],
        "cpus": [wave, 0.93],
        "closed": None,
    } | changes


def failure(frame: int, stage: str = "stage1") -> dict:
    message = f"stage '{stage}': frame {frame}: no <i>such</i> row & </script>"
    return {"frame": frame, "stream": 0, "stage": stage, "message": message, "at_ms": 1_700_000_000_000 + 10 * frame}


def recording(report: dict | None = None, count: int = 120, **changes) -> dict:
    samples = [sample(n, errors=2 if n > 60 else 0) for n in range(1, count + 1)]
    return {"about": about(report), "samples": samples, "failures": [failure(71), failure(93)], "missed": 0} | changes


def write_page(program: str, data: dict, file: Path) -> Path:
    """`program`: the script of a page that Penstock wrote."""
    text = json.dumps(data).replace("<", "\\u003c")
    file.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>t</title></head><body><script type="application/json" id="live">{text}</script>'
        f'<script id="program">{program}</script></body></html>'
    )
    return file
