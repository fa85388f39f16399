"""`python on_tensorflow.py FAULT`: workers in step, and the last one goes wrong while the others wait for it.

`taken`: somebody has the port of the last worker's task. `count`: the strategy is told of a worker more than there are.
"""

import json
import os
import socket
import sys

fault = sys.argv[1]
config = json.loads(os.environ["TF_CONFIG"])
workers, index = config["cluster"]["worker"], config["task"]["index"]
if fault == "taken" and index == len(workers) - 1:
    taken = socket.create_server(("", int(workers[index].rpartition(":")[2])))
if fault == "count" and index == 0:
    config["task"]["index"] = len(workers)
    os.environ["TF_CONFIG"] = json.dumps(config)

import tensorflow as tf  # noqa: E402
import wrong  # noqa: E402

strategy = tf.distribute.MultiWorkerMirroredStrategy()


@tf.function
def step():
    """The sum over the workers."""
    return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.ones(4)))


step()
if index == len(workers) - 1:
    wrong.go(fault)
step()
