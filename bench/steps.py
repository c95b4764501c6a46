"""What each step from a default session to the built plan gives, apart: engine, one a core, import, ... .

Each step adds one freedom to those before it, and its rate is that of the best way so far, so that none is below the
one before: their ratios multiply to the whole gain. Simple ways were run beside the built plan; plans of the build
are known relative to the chosen one, in turn with which they ran, and get its rate times that.
"""

import re

SINGLE = ("onnxruntime", "openvino-latency")  # One session on all CPUs, the file as it is.
PER_CORE = ("onnxruntime-per-core", "openvino-throughput", "openvino-per-core")
ENGINES = ("onnxruntime", "openvino")  # That the simple ways have, too.
STEPS = ("engine", "per core", "import", "own backends", "the file as it is", "mixing", "stages", "batches")


def step_of(plan: str) -> str:
    """Of a plan of the build, by its name, the last step that it needs."""
    if " stages" in plan:
        return "stages"
    if re.search(r" in \d+ parts", plan):
        return "mixing"
    if plan.endswith(", the file as it is"):
        return "the file as it is"
    return "import" if plan.split()[0] in ENGINES else "own backends"


def rates_of(built: dict, simple: dict[str, float], ours: float, batched: float = 0) -> dict[str, float]:
    """Frames per second of the best way that needs the step; 0: none was run. `ours`: of the built package beside
    `simple`; `batched`: of the best plan with several frames in one call."""
    rates = dict.fromkeys(STEPS, 0.0)
    for name in SINGLE:
        rates["engine"] = max(rates["engine"], simple.get(name, 0))
    for name in PER_CORE:
        rates["per core"] = max(rates["per core"], simple.get(name, 0))
    ways = {way["name"]: way["frames_per_second"] for way in built["ways"] if not way["failure"]}
    for name, rate in ways.items():
        step = step_of(name)
        rates[step] = max(rates[step], ours * rate / ways[built["chosen"]])
    rates["batches"] = batched
    return rates


def gains_of(built: dict, simple: dict[str, float], ours: float, batched: float = 0) -> dict[str, float]:
    """Of each step, the best rate with it over the best without it and all that follow; 1: it gives nothing."""
    gains, best = {}, simple["onnxruntime"]
    for step, rate in rates_of(built, simple, ours, batched).items():
        gains[step] = max(rate, best) / best
        best = max(rate, best)
    return gains


def imports_of(built: dict, simple: dict[str, float], ours: float) -> dict[str, float]:
    """Of each engine on each core, what its clean import gives over its best way of that kind on the file as it is."""
    ways = {way["name"]: way["frames_per_second"] for way in built["ways"] if not way["failure"]}
    gains = {}
    for engine in ENGINES:
        clean = ways.get(f"{engine} on each device", 0) / ways[built["chosen"]] * ours
        plain = max((simple.get(name, 0) for name in PER_CORE if name.startswith(engine)), default=0)
        if clean > 0 and plain > 0:
            gains[engine] = clean / plain
    return gains
