"""Trains ResNet-50 (or -101, -152, MobileNetV2) with Keras's `fit` and Horovod.

drumbeat run job_keras.yml
horovodrun -np 2 python train_keras.py --train data/train --test data/val
FAKE=True python train_keras.py
"""

import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import measure
import tensorflow as tf
from folders import BadData, list_images
from report import Report
from settings import FAKE_CLASSES, Settings, read_settings
from tf_images import normalized, testing_batches, training_batches
from tf_ranks import MODELS, TensorFlowRanks, count_weights, join, make_model, share_of_right

from drumbeat import train
from drumbeat.train.batch_scaling import BatchScaling
from drumbeat.train.launchers import read_identity


class EachEpoch(tf.keras.callbacks.Callback):
    """Sets the learning rate of each step, and validates and reports each epoch."""

    def __init__(self, report: Report, scaling: BatchScaling, images: int, validate: Callable[[], float]) -> None:
        super().__init__()
        self.report, self.scaling, self.images, self.validate = report, scaling, images, validate
        self.updates, self.started = 0, 0.0

    def on_epoch_begin(self, *_: object) -> None:
        """Starts the clock."""
        self.started = time.perf_counter()

    def on_train_batch_begin(self, *_: object) -> None:
        """Follows the warm-up."""
        self.model.optimizer.learning_rate = self.scaling.lr * self.scaling.factor(self.updates)
        self.updates += 1

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        """Validates and reports; the loss is already the mean of all ranks."""
        loss, seconds = (logs or {})["loss"], time.perf_counter() - self.started
        self.report.epoch(epoch + 1, self.images, seconds, loss=loss, accuracy=self.validate())


def make_callbacks(ranks: TensorFlowRanks, own: EachEpoch) -> list[tf.keras.callbacks.Callback]:
    """Returns Horovod's callbacks in front of the recipe's."""
    if ranks.hvd is None:
        return [own]
    callbacks = ranks.hvd.callbacks
    return [callbacks.BroadcastGlobalVariablesCallback(0), callbacks.MetricAverageCallback(), own]


class Training:
    """The compiled model and its images on one rank."""

    def __init__(self, settings: Settings, ranks: TensorFlowRanks) -> None:
        self.settings, self.ranks = settings, ranks
        self.report = Report(settings, ranks.rank, ranks.size, bool(ranks.gpus))
        self.folder = list_images(settings.train) if settings.train else None
        self.tests = list_images(settings.test, self.folder.classes) if self.folder and settings.test else None
        self.images = len(self.folder.paths) if self.folder else settings.fake_images
        self.steps_per_epoch = self.images // (settings.batch_size * ranks.size)
        self.scaling = train.scaled(
            settings.base_lr,
            batch_per_rank=settings.batch_size,
            rule=settings.rule,
            warmup_steps=round(settings.warmup_epochs * self.steps_per_epoch),
        )
        tf.random.set_seed(settings.seed)
        self.model = self.compile()

    def compile(self, *, is_alone: bool = False) -> tf.keras.Model:
        """Returns a model that averages its gradients over all ranks, or one of this rank's own."""
        settings, hvd = self.settings, None if is_alone else self.ranks.hvd
        classes = len(self.folder.classes) if self.folder else FAKE_CLASSES
        model = make_model(settings.model, settings.image_size, classes)
        optimizer = tf.keras.optimizers.SGD(
            self.scaling.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
        )
        model.compile(
            optimizer=hvd.DistributedOptimizer(optimizer) if hvd else optimizer,
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        return model

    def batches(self) -> tf.data.Dataset:
        """The batches of an epoch of this rank."""
        batches = training_batches(self.folder, self.settings, self.ranks.rank, self.ranks.size)
        return batches.map(lambda pixels_BHWC, labels_B: (normalized(pixels_BHWC), labels_B))

    def validate(self) -> float:
        """Returns the share of right answers over all ranks; NaN without images to test.

        Not by `fit`'s validation data: Horovod's callback takes the mean of the ranks' shares, whose sizes may differ.
        """
        if self.tests is None:
            return float("nan")
        batches = testing_batches(self.tests, self.settings, self.ranks.rank, self.ranks.size)
        return share_of_right(self.model, batches, self.ranks)

    def fit(self) -> None:
        """The whole training."""
        settings = self.settings
        images = self.steps_per_epoch * settings.batch_size * self.ranks.size
        own, begun = EachEpoch(self.report, self.scaling, images, self.validate), time.perf_counter()
        self.model.fit(
            self.batches(),
            epochs=settings.epochs,
            callbacks=make_callbacks(self.ranks, own),
            verbose=0,
        )
        self.report.throughput(images * settings.epochs, time.perf_counter() - begun)
        if self.ranks.rank == 0:
            settings.model_dir.mkdir(parents=True, exist_ok=True)
            self.model.save(settings.model_dir / "model.h5", include_optimizer=False)
        self.report.save("keras", settings.model_dir / "model.h5", learning_rate=self.scaling.lr)

    def measure(self) -> None:
        """Measures instead of training."""
        copy, ranks = self.compile(is_alone=True), self.ranks
        batches = itertools.chain.from_iterable(itertools.repeat(self.batches()))
        steps = measure.Steps(
            next_batch=lambda: next(batches),
            together=lambda batch: self.model.train_on_batch(*batch),
            alone=lambda batch: copy.train_on_batch(*batch),
            barrier=lambda: ranks.sum(tf.zeros(1)),
            highest=ranks.highest,
        )
        blocks = measure.measure(steps, self.settings.measure_steps, self.settings.batch_size * ranks.size)
        if ranks.rank == 0:
            facts = {"framework": "keras", "parameters": count_weights(self.model)}
            measure.save(self.settings.model_dir, blocks, {**facts, "device": "gpu" if ranks.gpus else "cpu"})


def main() -> None:
    """Joins the other ranks, trains or measures."""
    size = read_identity(os.environ).world_size
    settings = read_settings("Trains an image classifier.", models=tuple(MODELS), ways=("horovod",), size=size)
    if settings.rule == "lars":
        sys.exit("--rule lars is there for PyTorch only")
    ranks = join(settings.distributed, "horovod.tensorflow.keras")
    try:
        training = Training(settings, ranks)
    except BadData as error:
        sys.exit(f"{Path(__file__).name}: {error}")
    if not training.steps_per_epoch:
        sys.exit(f"{training.images} images are fewer than one step takes: {size} x {settings.batch_size}")
    training.report.say(
        f"{settings.model}, {count_weights(training.model):,} parameters; {training.images} images "
        f"({settings.dataset}), {settings.image_size}x{settings.image_size}; "
        f"{training.report.ranks} by {settings.distributed}"
    )
    if settings.measure_steps:
        training.measure()
    else:
        training.fit()


if __name__ == "__main__":
    main()
