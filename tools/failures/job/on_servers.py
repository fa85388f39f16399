"""`python on_servers.py FAULT`: a chief gives work to workers that keep their variables on a parameter server.

`raises`: the chief's own code. `killed`: the server, in the middle of it. `count`: there is no server in the cluster.
`taken`: somebody has the port of the server.
"""

import json
import os
import socket
import sys
import threading
import time

fault = sys.argv[1]
config = json.loads(os.environ["TF_CONFIG"])
kind = config["task"]["type"]
if fault == "taken" and kind == "ps":
    taken = socket.create_server(("", int(config["cluster"]["ps"][0].rpartition(":")[2])))
if fault == "count":
    del config["cluster"]["ps"]
    os.environ["TF_CONFIG"] = json.dumps(config)

import tensorflow as tf  # noqa: E402
import wrong  # noqa: E402

if kind == "ps" and fault == "count":
    time.sleep(600)
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if kind in ("worker", "ps"):
    server = tf.distribute.Server(resolver.cluster_spec(), kind, resolver.task_id, protocol="grpc", start=True)
    if kind == "ps" and fault == "killed":
        threading.Timer(15, wrong.go, ["killed"]).start()
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    variable = tf.Variable(tf.ones(4))


@tf.function
def add():
    """One step of a worker."""
    variable.assign_add(tf.ones(4))


for _ in range(4):
    coordinator.schedule(add)
coordinator.join()
if fault == "raises":
    wrong.go(fault)
while True:
    coordinator.schedule(add)
    coordinator.join()
    time.sleep(0.05)
