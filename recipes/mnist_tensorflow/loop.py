"""Trains a digit classifier with Keras 3 and a training loop of its own, over all tasks that TF_CONFIG names.

    drumbeat run job_ps.yml
    python loop.py --data data

With parameter servers a worker takes the weights, works out its gradient and applies it while others do the same: when
it is applied, the weights may have moved on. By how many updates is its staleness, which is counted here.
"""

import time
from collections.abc import Iterator

import cluster
import keras
import numpy as np
import tensorflow as tf
from digits import network
from training import describe, finish, load_data, make_batches, parse_options

TOLD_EVERY = 100


class Training:
    """A model with what is needed for one update of its weights."""

    def __init__(self, strategy: tf.distribute.Strategy, digits, options) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.model = network(keras, digits, options.seed)
            self.optimizer = keras.optimizers.SGD(options.lr, momentum=0.9)
            self.optimizer.build(self.model.trainable_variables)
            self.updates = tf.Variable(0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
        self.loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step_together(self, batches: Iterator) -> tf.Tensor:
        """All workers' gradients, averaged, in one update; the mean loss."""
        return self.strategy.reduce("MEAN", self.strategy.run(self._update, next(batches)), axis=None)

    @tf.function
    def step_alone(self, batches: Iterator) -> tuple[tf.Tensor, tf.Tensor]:
        """One worker's update; its loss, and how many updates of others came between."""
        batch = next(batches)
        before = self.updates.read_value()
        with tf.control_dependencies([before]):
            loss = self.strategy.run(self._update, batch)
        with tf.control_dependencies([loss]):
            return loss, self.updates.assign_add(1, read_value=True) - before - 1

    def _update(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        weights = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.model(images, training=True))
            share = loss / self.strategy.num_replicas_in_sync  # The optimizer adds up the gradients of all.
        self.optimizer.apply_gradients(zip(tape.gradient(share, weights), weights, strict=True))
        return loss


def train_together(training: Training, make, steps: int) -> dict[str, object]:
    """Each update waits for all workers."""
    batches = iter(training.strategy.distribute_datasets_from_function(make))
    losses = []
    for step in range(1, steps + 1):
        losses.append(float(training.step_together(batches)))
        tell(step, steps, losses)
    return {"training_loss": float(np.mean(losses[-TOLD_EVERY:]))}


def train_apart(training: Training, make, steps: int) -> dict[str, object]:
    """The chief deals out the updates, and whichever worker is free does the next one."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(training.strategy)
    distributed = training.strategy.distribute_datasets_from_function
    batches = iter(coordinator.create_per_worker_dataset(lambda: distributed(make)))
    losses, stale = [], []
    for begin in range(0, steps, TOLD_EVERY):
        count = min(TOLD_EVERY, steps - begin)
        for told in [coordinator.schedule(training.step_alone, (batches,)) for _ in range(count)]:
            loss, late = told.fetch()
            losses.append(float(loss))
            stale.append(int(late))
        tell(len(losses), steps, losses)
    cluster.say(f"staleness: mean={np.mean(stale):.2f} most={max(stale)}")
    facts = {"mean": float(np.mean(stale)), "most": max(stale)}
    return {"training_loss": float(np.mean(losses[-TOLD_EVERY:])), "staleness": facts}


def tell(step: int, steps: int, losses: list[float]) -> None:
    """A line for every hundred updates."""
    if step % TOLD_EVERY == 0 or step == steps:
        cluster.say(f"step {step}/{steps}: loss={np.mean(losses[-TOLD_EVERY:]):.4f}")


def main() -> None:
    """Joins the others, trains, tests, saves."""
    options = parse_options("Trains a digit classifier with Keras 3 and a loop of its own.")
    digits = load_data(options)
    strategy = cluster.join()
    cluster.say(describe(digits, options))
    training, make = Training(strategy, digits, options), make_batches(digits, options)
    train = train_apart if cluster.IS_ASYNCHRONOUS else train_together
    began = time.perf_counter()
    facts = train(training, make, options.steps)
    facts["updates_per_s"] = round(options.steps / (time.perf_counter() - began), 1)
    finish(keras, training.model, digits, options, facts)


if __name__ == "__main__":
    main()
