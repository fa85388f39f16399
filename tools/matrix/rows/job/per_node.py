"""`python per_node.py COUNT SCRIPT …` once a node under MPI: its rank is the node's; it starts COUNT processes."""

import os
import subprocess
import sys

count, command = int(sys.argv[1]), sys.argv[2:]
node, nodes = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
address, _, port = os.environ["AZ_BATCH_MASTER_NODE"].rpartition(":")


def start(local: int) -> subprocess.Popen[bytes]:
    """One of the processes of this node."""
    own = {"RANK": node * count + local, "WORLD_SIZE": nodes * count, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": count}
    environment = {**os.environ, "MASTER_ADDR": address, "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
    environment.update({name: str(value) for name, value in own.items()})
    return subprocess.Popen([sys.executable, *command], env=environment)


codes = [process.wait() for process in [start(local) for local in range(count)]]
sys.exit(next((code for code in codes if code), 0))
