"""Functions for a training script in a rank: standard library at import, torch within the functions.

    from drumbeat import train

    world = train.init()                       # any launcher, any backend
    scaling = train.scaled(0.001, batch_per_rank=64, rule="linear")

They need no server, and of drumbeat only `model` and `rank`, because the package is copied to nodes.
"""

from drumbeat.train.batch_scaling import BatchScaling, scaled
from drumbeat.train.checkpoints import Checkpoints
from drumbeat.train.gradient_compression import compress
from drumbeat.train.lars import use_lars
from drumbeat.train.outer_steps import OuterSteps, average, local_sgd
from drumbeat.train.parameter_server import AsynchronousUpdates
from drumbeat.train.process_group import TrainingWorld, init, leave
from drumbeat.train.resumable_loader import ResumableLoader

__all__ = [
    "AsynchronousUpdates", "BatchScaling", "Checkpoints", "OuterSteps", "ResumableLoader", "TrainingWorld", "average",
    "compress", "init", "leave", "local_sgd", "scaled", "use_lars",
]  # fmt: skip
