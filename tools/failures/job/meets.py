"""`python meets.py FAULT`: torch's ranks meet by gloo, and the last one goes wrong while the others wait for it.

`count`: they are told of one rank more than there are. Under MPI the ranks take their numbers from Open MPI's names.
"""

import os
import sys
from datetime import timedelta

import names
import torch.distributed as dist
import wrong

fault = sys.argv[1]
names.take_from_mpi()
patience_s = 20 if fault == "count" else 120  # Starts are seconds apart where machines are busy.
world = int(os.environ["WORLD_SIZE"]) + (fault == "count")
dist.init_process_group("gloo", world_size=world, rank=int(os.environ["RANK"]), timeout=timedelta(seconds=patience_s))
dist.barrier()
if dist.get_rank() == world - 1:
    wrong.go(fault)
dist.barrier()
