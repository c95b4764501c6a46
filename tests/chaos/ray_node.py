"""A node of Ray dies under a pipeline whose workers Ray keeps running."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import load
import local_hosts
import local_ray

EVERY_S = 15.0  # Ray notices, places and starts within it.
NODES = 3  # With room for one worker each: one of them is to spare.


def run(folder: Path, seconds: float, rate: float | None, deadline: float) -> dict[str, Any]:
    """As chaos.run(). Frames may come out as Unavailable where both stages were on their way."""
    program = local_hosts.find_program()
    sys.path.insert(0, str(Path(program).parents[1] / "lib/python"))
    import penstock.ray
    import ray

    model, package = load.write_model(folder / "chaos.onnx"), folder / "chaos.penstock"
    devices = "a:1/cpu:0,b:1/cpu:0"
    command = [program, "split", str(model), "-o", str(package), "--cut", "1", "--devices", devices]
    subprocess.run([*command, "--standby", devices], check=True, capture_output=True)
    events: list[tuple[float, float]] = []
    with local_ray.cluster(NODES, 1) as made:
        secrets = local_hosts.make_secrets(folder, [ray.util.get_node_ip_address()])
        options = {"remote": secrets.remote_options}
        arguments = secrets.worker_arguments
        with penstock.ray.deploy(package, program=program, arguments=arguments, backend_options=options) as deployed:
            counted = load.Load(deployed.pipeline, deadline)
            most = counted.warm()
            rate = rate or max(1.0, load.SHARE * most)
            pushing = threading.Thread(target=counted.run, args=[rate])
            pushing.start()
            end = time.monotonic() + seconds
            while not events or time.monotonic() + EVERY_S < end:
                moves = deployed.moves
                name = deployed._fleet.names[len(events) % 2]
                gone = time.monotonic()
                local_ray.lose(made, local_ray.node_of(made, deployed._fleet, name))
                made.add_room()
                while deployed.moves == moves:
                    time.sleep(0.05)
                events.append((gone, time.monotonic()))
                time.sleep(4)
            counted.ends.set()
            pushing.join()
            result = counted.finish(rate)
    return {"result": result, "events": events, "problems": [], "errors_allowed": True}
