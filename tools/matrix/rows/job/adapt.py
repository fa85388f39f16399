"""`python adapt.py SCRIPT …` under MPI: what Open MPI says of this process, by torch's names; then the script."""

import os
import runpy
import sys

said = os.environ
address, _, port = said["AZ_BATCH_MASTER_NODE"].rpartition(":")
said["MASTER_ADDR"], said["MASTER_PORT"] = address, port
for torch_name, mpi_name in (("RANK", "RANK"), ("WORLD_SIZE", "SIZE"), ("LOCAL_RANK", "LOCAL_RANK")):
    said[torch_name] = said[f"OMPI_COMM_WORLD_{mpi_name}"]
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
