"""Torch's names for what Open MPI says of a rank."""

import os


def take_from_mpi() -> None:
    """Under MPI, this rank's variables have torch's names too, and where all of them meet."""
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        for name, mpi_name in (("RANK", "RANK"), ("WORLD_SIZE", "SIZE"), ("LOCAL_RANK", "LOCAL_RANK")):
            os.environ[name] = os.environ[f"OMPI_COMM_WORLD_{mpi_name}"]
        os.environ["MASTER_ADDR"], _, os.environ["MASTER_PORT"] = os.environ["AZ_BATCH_MASTER_NODE"].rpartition(":")
