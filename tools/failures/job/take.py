"""`python take.py COMMAND …`: takes MASTER_PORT on node 0, as another program might; becomes the command."""

import os
import socket
import sys

environ = os.environ
if environ.get("OMPI_COMM_WORLD_RANK", environ.get("RANK", "0")) == "0":
    port = environ.get("MASTER_PORT") or environ["AZ_BATCH_MASTER_NODE"].rpartition(":")[2]
    taken = socket.create_server(("", int(port)))
    os.set_inheritable(taken.fileno(), True)  # noqa: FBT003 (it takes no names)
os.execvp(sys.argv[1], sys.argv[1:])
