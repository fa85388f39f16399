"""`python on_horovod.py FAULT`: Horovod's ranks average, and the last one goes wrong while the others wait for it.

`count`: a process set has a rank that there isn't.
"""

import sys

import horovod.torch as hvd
import torch
import wrong

fault = sys.argv[1]
hvd.init(process_sets=[hvd.ProcessSet([0, 7])] if fault == "count" else None)
hvd.allreduce(torch.ones(4), name="first")
if hvd.rank() == hvd.size() - 1:
    wrong.go(fault)
hvd.allreduce(torch.ones(4), name="second")
