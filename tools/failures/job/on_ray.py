"""`python on_ray.py FAULT RANKS_PER_NODE`: actors on every node, and the last one goes wrong.

`count`: more actors are wanted at once than the cluster has room for.
"""

import sys

import ray
import wrong
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

fault, per_node = sys.argv[1], int(sys.argv[2])
ray.init()
nodes = sorted(ray.nodes(), key=lambda node: node["NodeName"])


@ray.remote(num_cpus=0)
class Rank:
    """One actor."""

    def work(self, fault):
        """Goes wrong if it is told to."""
        wrong.go(fault)


if fault == "count":
    group = ray.util.placement_group([{"CPU": 1}] * (int(ray.cluster_resources()["CPU"]) + 1))
    ray.get(group.ready(), timeout=15)
places = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes for _ in range(per_node)]
ranks = [Rank.options(scheduling_strategy=place).remote() for place in places]
ray.get([rank.work.remote(fault if rank is ranks[-1] else "") for rank in ranks])
