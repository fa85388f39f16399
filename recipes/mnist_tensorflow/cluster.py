"""The part of a process in the cluster that TF_CONFIG names; without TF_CONFIG it trains alone."""

import json
import os

import tensorflow as tf

_CONFIG = json.loads(os.environ.get("TF_CONFIG", "{}"))
_ROLE = _CONFIG.get("task", {}).get("type", "worker")
_INDEX = _CONFIG.get("task", {}).get("index", 0)
IS_ASYNCHRONOUS = "ps" in _CONFIG.get("cluster", {})
"""Whether parameter servers keep the weights and each worker updates them at its own pace."""
WORKERS = len(_CONFIG.get("cluster", {}).get("worker", ["alone"]))
IS_LEADER = _ROLE == "chief" or ("chief" not in _CONFIG.get("cluster", {}) and _ROLE == "worker" and _INDEX == 0)
"""Whether this process prints and saves."""


def join() -> tf.distribute.Strategy:
    """How this process trains. In one that only serves (a parameter server, its workers), this never returns."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if IS_ASYNCHRONOUS and _ROLE in ("worker", "ps"):
        tf.distribute.Server(resolver.cluster_spec(), job_name=_ROLE, task_index=_INDEX, protocol="grpc").join()
    if IS_ASYNCHRONOUS:
        return tf.distribute.ParameterServerStrategy(resolver)
    return tf.distribute.MultiWorkerMirroredStrategy(resolver) if _CONFIG else tf.distribute.get_strategy()


def say(line: str) -> None:
    """Prints once in the whole cluster."""
    if IS_LEADER:
        print(line, flush=True)
