"""Ranks that meet by gloo, add up their numbers, and leave a named output and a file in `outputs`."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, total = dist.get_rank(), torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
sys.stdout.write(f"rank {rank} of {dist.get_world_size()} has {total.item():.0f}\n")
if rank == 0:
    Path(sys.argv[1], "model.txt").write_text(f"sum {total.item():.0f}")
    Path("outputs").mkdir(exist_ok=True)
    Path("outputs/note.txt").write_text("done")
dist.destroy_process_group()
