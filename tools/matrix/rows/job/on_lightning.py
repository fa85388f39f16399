"""The recipe's network, trained by Lightning: `python on_lightning.py NODES --data … --model-dir …`, once per rank."""

import json
import os
import sys

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from torch import nn
from torch.utils.data import DataLoader
from train import Classifier, leave, load_data, parse_options

nodes, per_node = int(sys.argv.pop(1)), int(os.environ["LOCAL_WORLD_SIZE"])
options = parse_options()
data = load_data(options)
seed_everything(options.seed, verbose=False)


class Module(LightningModule):
    """The network with its loss and its optimizer."""

    def __init__(self) -> None:
        super().__init__()
        pixels = data.training.tensors[0].float()
        self.network = Classifier(data.classes, pixels.mean().item(), pixels.std().item())
        self.right, self.total = torch.zeros(()), 0

    def training_step(self, batch, *_):
        """The loss of a batch."""
        images, labels = batch
        return nn.functional.cross_entropy(self.network(images), labels)

    def test_step(self, batch, *_):
        """Counts right answers of this rank's part."""
        images, labels = batch
        self.right += (self.network(images).argmax(dim=1) == labels).sum().cpu()
        self.total += len(labels)

    def configure_optimizers(self):
        """As the recipe has it."""
        optimizer = torch.optim.SGD(self.parameters(), lr=options.lr, momentum=0.9, weight_decay=5e-4)
        steps = self.trainer.estimated_stepping_batches
        falling = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=steps, pct_start=0.25)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": falling, "interval": "step"}}


size = options.batch_size // (nodes * per_node)
trainer = Trainer(
    accelerator="auto", devices=per_node, num_nodes=nodes, strategy="ddp", max_epochs=options.epochs, logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
module = Module()
trainer.fit(module, DataLoader(data.training, batch_size=size, shuffle=True, drop_last=True))
trainer.test(module, DataLoader(data.testing, batch_size=size), verbose=False)
counted = torch.tensor([module.right.item(), module.total], dtype=torch.float64)
torch.distributed.all_reduce(counted)
accuracy = (counted[0] / counted[1]).item()
if trainer.is_global_zero:
    options.model_dir.mkdir(parents=True, exist_ok=True)
    facts = {"test": {"accuracy": accuracy, "images": int(counted[1])}, "ranks": trainer.world_size}
    (options.model_dir / "metrics.json").write_text(json.dumps(facts))
    print(f"test: accuracy={accuracy:.4f} images={int(counted[1])}, {trainer.world_size} ranks")
leave()
