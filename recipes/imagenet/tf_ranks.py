"""The ranks of a TensorFlow or Keras training by Horovod, and one process alone where there is no Horovod."""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import tensorflow as tf

MODELS = {
    "resnet50": tf.keras.applications.ResNet50,
    "resnet101": tf.keras.applications.ResNet101,
    "resnet152": tf.keras.applications.ResNet152,
    "mobilenet_v2": tf.keras.applications.MobileNetV2,
}


@dataclass
class TensorFlowRanks:
    """One process among the ranks. hvd: Horovod's module, None = alone."""

    hvd: ModuleType | None
    rank: int = 0
    size: int = 1
    gpus: list[Any] = field(default_factory=list)

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """Returns the sum over all ranks."""
        return self.hvd.allreduce(values, op=self.hvd.Sum, name="sum") if self.hvd else values

    def highest(self, values: list[float]) -> list[float]:
        """Returns for each place the highest value of all ranks."""
        if not self.hvd:
            return values
        return tf.reduce_max(self.hvd.allgather(tf.constant([values]), name="highest"), 0).numpy().tolist()


def join(way: str, module: str) -> TensorFlowRanks:
    """Returns the ranks. module: `horovod.tensorflow` or `horovod.tensorflow.keras`."""
    threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    if threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(max(1, threads))
    gpus = tf.config.list_physical_devices("GPU")
    if way == "none":
        return TensorFlowRanks(None, gpus=gpus)
    import importlib

    try:
        hvd = importlib.import_module(module)
    except ImportError as error:
        sys.exit(f"{module} can't be imported ({error}): create the environment of horovod_tensorflow.yml, and name it")
    hvd.init()
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")
    return TensorFlowRanks(hvd, hvd.rank(), hvd.size(), gpus)


def make_model(name: str, size: int, classes: int) -> tf.keras.Model:
    """Returns a network of Keras with new weights, which gives logits."""
    model = MODELS[name](weights=None, input_shape=(size, size, 3), classes=classes, classifier_activation=None)
    for layer in model.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.momentum = 0.9  # As PyTorch's; Keras's own 0.99 needs hundreds of steps to forget its first values.
    return model


def share_of_right(
    model: tf.keras.Model, batches: Iterable[tuple[tf.Tensor, tf.Tensor]], ranks: TensorFlowRanks
) -> float:
    """Returns the share of right answers over all ranks, each image counted once, and averages the batch norms first.

    batches: this rank's part of the images, which may be larger than another's, or empty.
    """
    for values in model.non_trainable_variables:  # Each rank's have seen its own batches only.
        values.assign(ranks.sum(tf.identity(values)) / ranks.size)
    right = count = 0
    for x_BHWC, labels_B in batches:
        answers_B = tf.argmax(model(x_BHWC, training=False), 1, tf.int32)
        right += int(tf.reduce_sum(tf.cast(answers_B == labels_B, tf.int32)))
        count += len(labels_B)
    counts = ranks.sum(tf.constant([right, count], tf.float32))
    return float(counts[0] / counts[1])


def count_weights(model: tf.keras.Model) -> int:
    """Returns the number of values that are trained."""
    return sum(int(tf.size(weights)) for weights in model.trainable_weights)
