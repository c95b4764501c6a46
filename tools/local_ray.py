"""A cluster of Ray on one machine, for tests: raylets that can be lost."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import local_hosts

PACKAGES = local_hosts.ROOT / f".ray/lib/python3.{sys.version_info.minor}/site-packages"


def find_ray() -> bool:
    """Ray of script/setup, or one that is installed."""
    if PACKAGES.exists() and str(PACKAGES) not in sys.path:
        sys.path.append(str(PACKAGES))
    try:
        importlib.import_module("ray.cluster_utils")
    except ModuleNotFoundError:
        return False
    return True


def why_not() -> str:
    return "" if find_ray() else "Ray is not there: script/setup --tests makes .ray/"


def variables() -> dict[str, str]:
    """What the processes of a cluster find in their environment."""
    ours = {
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_health_check_failure_threshold": "2",
        "RAY_health_check_period_ms": "500",
    }
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(PACKAGES)]))
    return {name: os.environ.get(name, value) for name, value in ours.items()} | {"PYTHONPATH": path}


@contextmanager
def cluster(nodes: int, cpus: int, **resources: float) -> Iterator[Any]:
    """A head without room for workers, and nodes that have some: `made.nodes_with_room`."""
    import ray
    from ray.cluster_utils import Cluster

    with mock.patch.dict(os.environ, variables()):  # What is started later finds nothing of it.
        memory = 80 * 2**20
        head = {"num_cpus": 0, "object_store_memory": memory, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=head)

        def add() -> None:
            node = made.add_node(num_cpus=cpus, resources=dict(resources), object_store_memory=memory)
            made.nodes_with_room.append(node)

        made.nodes_with_room = []
        made.add_room = add
        try:
            for _ in range(nodes):
                add()
            ray.init(address=made.address, namespace="penstock", log_to_driver=False, logging_level="error")
            yield made
        finally:
            ray.shutdown()
            made.shutdown()


def node_of(made: Any, fleet: Any, worker: str) -> Any:
    """The node that the worker is on."""
    import ray

    home = ray.get(fleet._workers[worker].node.remote())
    return next(node for node in made.nodes_with_room if node.node_id == home)


def lose(made: Any, node: Any) -> None:
    """The node is killed."""
    made.remove_node(node, allow_graceful=False)
    made.nodes_with_room.remove(node)
