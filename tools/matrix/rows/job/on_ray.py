"""`python on_ray.py COUNT SCRIPT …` on a Ray cluster: COUNT ranks on each of its nodes, each an actor that runs SCRIPT.

The script has a process of its own, for it may end it as it likes. Rank 0 is on the head, beside this process. A node's
own folders come from its own variables.
"""

import os
import subprocess
import sys

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

PLACES = [name for name in os.environ if name.startswith(("AZURE_ML_INPUT_", "AZURE_ML_OUTPUT_"))]


@ray.remote
class Rank:
    """One rank of torch's process group."""

    def free_port(self) -> tuple[str, int]:
        """Where the ranks can meet on this one's node."""
        import socket

        with socket.socket() as probe:
            probe.bind(("", 0))
            return ray.util.get_node_ip_address(), probe.getsockname()[1]

    def run(self, command: list[str], places: dict[str, str], variables: dict[str, str]) -> None:
        """The script, as it would be run by hand."""
        for name, there in places.items():
            command = [word.replace(there, os.environ[name]) for word in command]
        subprocess.run([sys.executable, *command], env={**os.environ, **variables}, check=True)


def main(count: int, command: list[str]) -> None:
    """Starts them, and waits until all are done."""
    ray.init()
    nodes = [node for node in sorted(ray.nodes(), key=lambda node: node["NodeName"]) if node["Alive"]]
    print(f"{len(nodes)} Ray nodes: {', '.join(node['NodeName'] for node in nodes)}")
    share = min(1, *(node["Resources"]["CPU"] / count for node in nodes))
    on = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes for _ in range(count)]
    ranks = [Rank.options(num_cpus=share, scheduling_strategy=one).remote() for one in on]
    address, port = ray.get(ranks[0].free_port.remote())
    places = {name: os.environ[name] for name in PLACES}
    group = {"MASTER_ADDR": address, "MASTER_PORT": port, "WORLD_SIZE": len(ranks), "LOCAL_WORLD_SIZE": count}
    variables = [{**group, "RANK": number, "LOCAL_RANK": number % count} for number in range(len(ranks))]
    said = [{name: str(value) for name, value in one.items()} for one in variables]
    ray.get([rank.run.remote(command, places, own) for rank, own in zip(ranks, said, strict=True)])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
