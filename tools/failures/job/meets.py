"""`python meets.py FAULT`: torch's ranks meet by gloo, and the last one goes wrong while the others wait for it.

`count`: they are told of one rank more than there are. Under MPI the ranks take their numbers from Open MPI's names.
"""

import os
import sys
from datetime import timedelta

import torch.distributed as dist
import wrong

fault = sys.argv[1]
if "OMPI_COMM_WORLD_RANK" in os.environ:
    os.environ["RANK"], os.environ["WORLD_SIZE"] = (os.environ[f"OMPI_COMM_WORLD_{name}"] for name in ("RANK", "SIZE"))
    os.environ["MASTER_ADDR"], _, os.environ["MASTER_PORT"] = os.environ["AZ_BATCH_MASTER_NODE"].rpartition(":")
world = int(os.environ["WORLD_SIZE"]) + (fault == "count")
dist.init_process_group("gloo", world_size=world, rank=int(os.environ["RANK"]), timeout=timedelta(seconds=20))
dist.barrier()
if dist.get_rank() == world - 1:
    wrong.go(fault)
dist.barrier()
