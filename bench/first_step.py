"""The measured script: a smallest DDP training that writes down when each stage of its start was done.

first_step.py FOLDER    one line per stage into FOLDER/RANK.NANOSECONDS; then it trains on until FOLDER/stop is there
"""

import os
import sys
import time
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def process_started() -> float:
    """When this process was made, by the kernel's count (10 ms fine)."""
    after_name = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(after_name[19]) / TICKS_PER_S
    return time.time() - age_s


folder = Path(sys.argv[1])
with (folder / f"{os.environ['RANK']}.{time.time_ns()}").open("a", encoding="utf-8", buffering=1) as marks:

    def mark(stage: str, at: float | None = None) -> None:
        """Notes that a stage is done."""
        marks.write(f"{stage} {at or time.time():.6f}\n")

    mark("process", process_started())
    mark("first_line")

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    mark("import")
    if torch.cuda.is_available():
        torch.set_default_device(torch.device("cuda", int(os.environ["LOCAL_RANK"])))
        dist.init_process_group("nccl", init_method="env://", device_id=torch.get_default_device())
    else:
        dist.init_process_group("gloo", init_method="env://")
    mark("group")
    model = DistributedDataParallel(torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    going_on, steps = torch.ones(()), 0
    while going_on:
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        steps += 1
        if steps == 1:
            model.module.bias.detach().cpu()  # A GPU is done with the step when something of it can be read.
            mark("step")
        # Rank 0 decides for all, so that none waits in a step that another has left out.
        going_on.fill_(not (folder / "stop").exists())
        dist.broadcast(going_on, 0)
        time.sleep(0.02)

# Python's shutdown can abort in a thread of gloo's, see recipes/fashion_mnist/train.py.
os._exit(0)
