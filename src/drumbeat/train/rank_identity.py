"""The identity of a rank by its launcher, and torch's variables for it."""

from __future__ import annotations

from dataclasses import dataclass

ENVIRONMENT = "env://"
"""torch's name for the meeting point in `MASTER_ADDR` and `MASTER_PORT`."""


@dataclass(frozen=True)
class RankIdentity:
    """One rank's number and meeting point, by its launcher."""

    launcher: str
    """`drumbeat`, `torchrun`, `torch`, `Open MPI`, `hydra`, `Slurm`, `TF_CONFIG`, `Batch AI` or `none`."""
    rank: int = 0
    world_size: int = 1
    local_rank: int | None = 0
    """The number within the node; None = unknown."""
    local_world_size: int | None = 1
    """The number of ranks on the node; None = unknown."""
    node_rank: int | None = 0
    """The number of the node; None = unknown."""
    master_addr: str = "127.0.0.1"
    """The host of rank 0; "" = unknown."""
    master_port: int = 0
    init_method: str = ENVIRONMENT
    """The meeting point, in the form of `torch.distributed.init_process_group`."""

    def torch_variables(self) -> dict[str, str]:
        """Returns the variables that `init_process_group("env://")` and scripts for torchrun read.

        Unknown ones are missing.
        """
        numbers = {
            "RANK": self.rank,
            "WORLD_SIZE": self.world_size,
            "LOCAL_RANK": self.local_rank,
            "LOCAL_WORLD_SIZE": self.local_world_size,
            "NODE_RANK": self.node_rank,
            "GROUP_RANK": self.node_rank,
            "MASTER_PORT": self.master_port,
        }
        variables = {name: str(number) for name, number in numbers.items() if number is not None}
        return {**variables, **({"MASTER_ADDR": self.master_addr} if self.master_addr else {})}
