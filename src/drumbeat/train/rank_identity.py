"""What a launcher says about one rank, and the names under which torch expects it."""

from __future__ import annotations

from dataclasses import dataclass

ENVIRONMENT = "env://"
"""torch's address of the meeting point that `MASTER_ADDR` and `MASTER_PORT` name."""


@dataclass(frozen=True)
class RankIdentity:
    """One rank's number and meeting point, as its launcher gave them."""

    launcher: str
    """`drumbeat`, `torchrun`, `torch`, `Open MPI`, `hydra`, `Slurm`, `TF_CONFIG`, `Batch AI` or `none`."""
    rank: int = 0
    world_size: int = 1
    local_rank: int | None = 0
    """The number within the node; None = the launcher doesn't say it."""
    local_world_size: int | None = 1
    """The number of ranks on the node; None = the launcher doesn't say it."""
    node_rank: int | None = 0
    """The number of the node; None = the launcher doesn't say it."""
    master_addr: str = "127.0.0.1"
    """The host of rank 0; "" = the launcher doesn't say it."""
    master_port: int = 0
    init_method: str = ENVIRONMENT
    """Where the ranks meet, as `torch.distributed.init_process_group` reads it."""

    def torch_variables(self) -> dict[str, str]:
        """Returns the variables that `init_process_group("env://")` and scripts for torchrun read.

        What the launcher doesn't say is left out.
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
