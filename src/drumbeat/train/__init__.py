"""What a training script may call in a rank: standard library at import, torch within the functions.

    from drumbeat import train

    world = train.init()                       # any launcher, any backend
    scaling = train.scaled(0.001, batch_per_rank=64, rule="linear")

Nothing here needs a server, and nothing of drumbeat but `protocol` and `rank`: the room travels to nodes.
"""

from drumbeat.train.lars import use_lars
from drumbeat.train.process_group import TrainingWorld, init, leave
from drumbeat.train.scaling import BatchScaling, scaled

__all__ = ["BatchScaling", "TrainingWorld", "init", "leave", "scaled", "use_lars"]
