"""`python on_deepspeed.py FAULT`: DeepSpeed's engine takes steps, and the last rank goes wrong in one of them.

`count`: the batch isn't that of so many ranks.
"""

import sys
from datetime import timedelta

import deepspeed
import names
import torch
import wrong

sys.argv = [word for word in sys.argv if not word.startswith("--local_rank")]
fault = sys.argv[1]
names.take_from_mpi()
patience_s = 30 if fault == "count" else 120  # Starts are seconds apart where machines are busy.
deepspeed.init_distributed("gloo", auto_mpi_discovery=False, timeout=timedelta(seconds=patience_s))
ranks = torch.distributed.get_world_size()
config = {
    "train_batch_size": 2 * ranks + (fault == "count"),
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 1,
    "optimizer": {"type": "AdamW", "params": {"torch_adam": True}},
}
network = torch.nn.Linear(4, 1)
engine, *_ = deepspeed.initialize(model=network, model_parameters=network.parameters(), config=config)
for step in range(4):
    if step == 2 and torch.distributed.get_rank() == ranks - 1:
        wrong.go(fault)
    engine.backward(engine(torch.ones(2, 4)).sum())
    engine.step()
