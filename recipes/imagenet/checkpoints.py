"""Checkpoints of a PyTorch training: weights, optimizer, schedule, and the place in the data.

They are in `$DRUMBEAT_CHECKPOINT_DIR`, which outlives the rounds and attempts of a job; without it there are none.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from train_pytorch import Training

NAME = "imagenet.pt"


class Checkpoints:
    """What one training saves and goes on from."""

    def __init__(self, training: "Training") -> None:
        self.training = training
        folder = os.environ.get("DRUMBEAT_CHECKPOINT_DIR")
        self.path = Path(folder) / NAME if folder and training.settings.checkpoint_every else None

    def save_at(self, epoch: int, step: int) -> None:
        """Saves after a step where it is time to, on rank 0."""
        training = self.training
        if self.path is None or step % training.settings.checkpoint_every or training.ranks.rank:
            return
        state = {
            "epoch": epoch,
            "step": step,
            "size": training.ranks.size,
            "history": training.report.history,
            "network": training.network.state_dict(),
            "optimizer": training.optimizer.state_dict(),
            "schedule": training.schedule.state_dict(),
            # Equal on all ranks: it counts the batches, and the shard knows whose they are.
            "loader": training.loader.state_dict() if hasattr(training.loader, "state_dict") else None,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, self.path.with_suffix(".part"))
        self.path.with_suffix(".part").replace(self.path)

    def restore(self) -> tuple[int, int]:
        """Goes on from the last checkpoint; the epoch to begin with, and how many of its steps are done."""
        training = self.training
        if self.path is None or not self.path.exists():
            return 1, 0
        state = torch.load(self.path, map_location=training.ranks.device, weights_only=False)
        training.network.load_state_dict(state["network"])
        training.optimizer.load_state_dict(state["optimizer"])
        training.schedule.load_state_dict(state["schedule"])
        training.report.history = state["history"]
        if state["step"] >= training.steps_per_epoch:
            return state["epoch"] + 1, 0
        if state["loader"] is None or state["size"] != training.ranks.size:
            training.report.say(f"epoch {state['epoch']} begins again: its order was another one, or can't be resumed")
            return state["epoch"], 0
        training.shard.set_epoch(state["epoch"])
        training.loader.load_state_dict(state["loader"])
        training.report.say(f"goes on in epoch {state['epoch']} after step {state['step']}")
        return state["epoch"], state["step"]
