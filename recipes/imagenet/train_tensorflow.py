"""Trains ResNet-50 (or -101, -152, MobileNetV2) with TensorFlow and Horovod: a training loop of its own.

drumbeat run job_tensorflow.yml
horovodrun -np 2 python train_tensorflow.py --train data/train --test data/val
FAKE=True python train_tensorflow.py
"""

import itertools
import os
import sys
import time
from pathlib import Path

import measure
import tensorflow as tf
from folders import BadData, list_images
from report import Report
from settings import FAKE_CLASSES, Settings, read_settings
from tf_images import normalized, testing_batches, training_batches
from tf_ranks import MODELS, TensorFlowRanks, count_weights, join, make_model, share_of_right

from drumbeat import train
from drumbeat.train.launchers import read_identity


class Training:
    """The network, its optimizer and its images on one rank."""

    def __init__(self, settings: Settings, ranks: TensorFlowRanks) -> None:
        self.settings, self.ranks = settings, ranks
        self.report = Report(settings, ranks.rank, ranks.size, bool(ranks.gpus))
        folder = list_images(settings.train) if settings.train else None
        self.tests = list_images(settings.test, folder.classes) if folder and settings.test else None
        self.classes = len(folder.classes) if folder else FAKE_CLASSES
        self.images = len(folder.paths) if folder else settings.fake_images
        self.batches = training_batches(folder, settings, ranks.rank, ranks.size)
        self.steps_per_epoch = self.images // (settings.batch_size * ranks.size)
        self.scaling = train.scaled(
            settings.base_lr,
            batch_per_rank=settings.batch_size,
            rule=settings.rule,
            warmup_steps=round(settings.warmup_epochs * self.steps_per_epoch),
        )
        tf.random.set_seed(settings.seed)
        self.model = make_model(settings.model, settings.image_size, self.classes)
        self.optimizer = self.make_optimizer()
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.updates, self.is_shared = 0, False

    def make_optimizer(self) -> tf.keras.optimizers.Optimizer:
        """SGD as in the reference."""
        return tf.keras.optimizers.SGD(self.scaling.lr, momentum=self.settings.momentum)

    def update(self, model: tf.keras.Model, optimizer: tf.keras.optimizers.Optimizer, *, is_alone: bool = False):
        """Returns a compiled function that does one step with a batch and returns the loss."""
        hvd = None if is_alone else self.ranks.hvd

        @tf.function(autograph=False)
        def step(pixels_BHWC: tf.Tensor, labels_B: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = self.loss(labels_B, model(normalized(pixels_BHWC), training=True))
            tape = hvd.DistributedGradientTape(tape) if hvd else tape
            gradients = tape.gradient(loss, model.trainable_variables)
            decay = self.settings.weight_decay
            pairs = zip(gradients, model.trainable_variables, strict=True)
            optimizer.apply_gradients([(gradient + decay * weights, weights) for gradient, weights in pairs])
            return loss

        return step

    def share(self) -> None:
        """Gives all ranks the weights of rank 0, after the first step has made the optimizer's."""
        if self.ranks.hvd and not self.is_shared:
            self.ranks.hvd.broadcast_variables(self.model.variables, root_rank=0)
            variables = self.optimizer.variables
            self.ranks.hvd.broadcast_variables(variables() if callable(variables) else variables, root_rank=0)
        self.is_shared = True

    def train(self) -> None:
        """All epochs."""
        step, images, begun = self.update(self.model, self.optimizer), 0, time.perf_counter()
        for epoch in range(1, self.settings.epochs + 1):
            started, total = time.perf_counter(), 0.0
            for pixels_BHWC, labels_B in self.batches:
                self.optimizer.learning_rate = self.scaling.lr * self.scaling.factor(self.updates)
                total += float(step(pixels_BHWC, labels_B))
                self.share()
                self.updates += 1
            count = self.steps_per_epoch * self.settings.batch_size * self.ranks.size
            images += count
            mean = float(self.ranks.sum(tf.constant(total))) / self.steps_per_epoch / self.ranks.size
            seconds = time.perf_counter() - started
            self.report.epoch(epoch, count, seconds, loss=mean, accuracy=self.validate())
        self.report.throughput(images, time.perf_counter() - begun)
        self.save()

    def validate(self) -> float:
        """Returns the share of right answers over all ranks, each image counted once; NaN without images to test."""
        if self.tests is None:
            return float("nan")
        batches = testing_batches(self.tests, self.settings, self.ranks.rank, self.ranks.size)
        return share_of_right(self.model, batches, self.ranks)

    def save(self) -> None:
        """Writes `model.h5` on rank 0."""
        folder = self.settings.model_dir
        if self.ranks.rank == 0:
            folder.mkdir(parents=True, exist_ok=True)
            self.model.save(folder / "model.h5")
        self.report.save("tensorflow", folder / "model.h5", learning_rate=self.scaling.lr)

    def measure(self) -> None:
        """Measures instead of training."""
        copy = make_model(self.settings.model, self.settings.image_size, self.classes)
        shared = self.update(self.model, self.optimizer)
        alone = self.update(copy, self.make_optimizer(), is_alone=True)
        batches = itertools.chain.from_iterable(itertools.repeat(self.batches))
        steps = measure.Steps(
            next_batch=lambda: next(batches),
            together=lambda batch: float(shared(*batch)),
            alone=lambda batch: float(alone(*batch)),
            barrier=lambda: self.ranks.sum(tf.zeros(1)),
            highest=self.ranks.highest,
        )
        blocks = measure.measure(steps, self.settings.measure_steps, self.settings.batch_size * self.ranks.size)
        if self.ranks.rank == 0:
            facts = {"framework": "tensorflow", "parameters": count_weights(self.model)}
            measure.save(self.settings.model_dir, blocks, {**facts, "device": "gpu" if self.ranks.gpus else "cpu"})


def main() -> None:
    """Joins the other ranks, trains or measures."""
    size = read_identity(os.environ).world_size
    settings = read_settings("Trains an image classifier.", models=tuple(MODELS), ways=("horovod",), size=size)
    if settings.rule == "lars":
        sys.exit("--rule lars is there for PyTorch only")
    try:
        training = Training(settings, join(settings.distributed, "horovod.tensorflow"))
    except BadData as error:
        sys.exit(f"{Path(__file__).name}: {error}")
    if not training.steps_per_epoch:
        sys.exit(f"{training.images} images are fewer than one step takes: {size} x {settings.batch_size}")
    training.report.say(
        f"{settings.model}, {count_weights(training.model):,} parameters; {training.images} images of "
        f"{training.classes} classes ({settings.dataset}), {settings.image_size}x{settings.image_size}; "
        f"{training.report.ranks} by {settings.distributed}"
    )
    if settings.measure_steps:
        training.measure()
    else:
        training.train()


if __name__ == "__main__":
    main()
