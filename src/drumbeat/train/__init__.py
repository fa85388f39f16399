"""What a training script may call in a rank: standard library at import, torch within the functions.

    from drumbeat import train

    world = train.init()                       # any launcher, any backend
    scaling = train.scaled(0.001, batch_per_rank=64, rule="linear")

Nothing here needs a server, and nothing of drumbeat but `protocol` and `rank`: the room travels to nodes.
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
