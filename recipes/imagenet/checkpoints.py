"""Checkpoints of a PyTorch training: weights, optimizer, results so far, and the place in the data.

Rank 0 writes them to `$DRUMBEAT_CHECKPOINT_DIR`, which outlives the rounds and attempts of a job; without it there are
none. Nodes may have folders of their own: all ranks go on from the furthest checkpoint that one of them finds.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from train_pytorch import Training

NAME = "imagenet.pt"


class Checkpoints:
    """What one training saves and goes on from. All ranks call each method at the same place."""

    def __init__(self, training: "Training") -> None:
        self.training = training
        folder = os.environ.get("DRUMBEAT_CHECKPOINT_DIR")
        self.path = Path(folder) / NAME if folder and training.settings.checkpoint_every else None

    def save_at(self, epoch: int, step: int, loss: torch.Tensor) -> None:
        """Saves after a step where it is time to. loss: this rank's sum over the steps of the epoch so far."""
        training = self.training
        # The epoch's last step is saved after its validation, whose result belongs to the checkpoint.
        if self.path is None or step % training.settings.checkpoint_every or step == training.steps_per_epoch:
            return
        self._save((epoch, step), training.ranks.sum(loss.clone()).item())

    def save_after(self, epoch: int) -> None:
        """Saves after an epoch and its validation."""
        if self.path is not None:
            self._save((epoch + 1, 0), 0.0)

    def _save(self, place: tuple[int, int], loss: float) -> None:
        training = self.training
        if self.path is None or training.ranks.rank:
            return
        state = {
            "place": place,
            "loss": loss,
            "readers": [training.workers] * training.ranks.size,
            "history": training.report.history,
            "network": training.network.state_dict(),
            "optimizer": training.optimizer.state_dict(),
            # Equal on all ranks: it counts the batches, and the shard knows whose they are.
            "loader": training.loader.state_dict() if hasattr(training.loader, "state_dict") else None,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, self.path.with_suffix(".part"))
        self.path.with_suffix(".part").replace(self.path)

    def restore(self) -> tuple[int, int, float]:
        """Goes on from the last checkpoint.

        Returns the epoch to begin with, how many of its steps are done, and the sum of their losses over all ranks.
        """
        training, ranks = self.training, self.training.ranks
        if self.path is None:
            return 1, 0, 0.0
        own = torch.load(self.path, map_location="cpu", weights_only=False) if self.path.exists() else None
        every = ranks.gather((own["place"] if own else (0, 0), training.workers))
        places, readers = [place for place, _ in every], [workers for _, workers in every]
        epoch, step = max(places)
        if not epoch:
            return 1, 0, 0.0
        source = places.index((epoch, step))
        state = ranks.broadcast(own if ranks.rank == source else None, source)
        training.network.load_state_dict(state["network"])
        training.optimizer.load_state_dict(state["optimizer"])
        training.report.history = state["history"]
        # torchdata's state is for as many processes that read. All ranks decide alike, as they have heard the same.
        if step and (state["loader"] is None or state["readers"] != readers):
            training.report.say(f"epoch {epoch} begins again: its order was another one, or can't be resumed")
            step = 0
        training.begin_schedule((epoch - 1) * training.steps_per_epoch + step)
        if not step:
            return epoch, 0, 0.0
        training.shard.set_epoch(epoch)
        training.loader.load_state_dict(state["loader"])
        training.report.say(f"goes on in epoch {epoch} after step {step}")
        return epoch, step, state["loss"]
