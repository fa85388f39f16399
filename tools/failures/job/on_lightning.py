"""`python on_lightning.py FAULT NODES RANKS_PER_NODE`: Lightning's Trainer takes steps; the last rank goes wrong.

`count`: it is told of a node more than there are.
"""

import sys
from datetime import timedelta

import torch
import wrong
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader

fault, nodes, per_node = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


class Module(LightningModule):
    """A network of one layer."""

    def __init__(self):
        super().__init__()
        self.network = torch.nn.Linear(4, 1)

    def training_step(self, batch, number):
        """The loss of a batch."""
        if number == 1 and self.global_rank == self.trainer.world_size - 1:
            wrong.go(fault)
        return self.network(batch).sum()

    def configure_optimizers(self):
        """As simple as it can be."""
        return torch.optim.SGD(self.parameters(), 0.01)


patience_s = 20 if fault == "count" else 120  # Starts are seconds apart where machines are busy.
trainer = Trainer(
    accelerator="cpu", devices=per_node, num_nodes=nodes + (fault == "count"), max_epochs=1, logger=False,
    strategy=DDPStrategy(timeout=timedelta(seconds=patience_s)), enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False,
)  # fmt: skip
trainer.fit(Module(), DataLoader(torch.ones(64, 4), batch_size=2))
