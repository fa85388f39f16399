import pathlib
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, start = dist.get_rank(), float(pathlib.Path(sys.argv[1]).read_text())
number = torch.tensor([start + rank])
dist.all_reduce(number)
if rank == 0:
    (pathlib.Path(sys.argv[2]) / "total").write_text(f"{number.item():g} from {dist.get_world_size()} ranks")
dist.destroy_process_group()
