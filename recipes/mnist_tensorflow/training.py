"""What both scripts have alike: options, batches, and what is told and saved at the end."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from cluster import IS_ASYNCHRONOUS, IS_LEADER, WORKERS, say
from digits import BadData, Digits, load, network


def parse_options(about: str) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--data", type=Path, required=True, help="folder with MNIST's four files, plain or .gz")
    parser.add_argument("--model-dir", type=Path, default=Path("model"), help="where the model is saved")
    parser.add_argument("--steps", type=int, default=600, help="updates of the weights, by all workers together")
    parser.add_argument("--batch-size", type=int, default=32, help="images that a worker takes for one update")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate")
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()
    if options.steps < 1 or options.batch_size < 1:
        parser.error(f"--steps {options.steps}, --batch-size {options.batch_size}: both are at least 1")
    return options


def load_data(options: argparse.Namespace) -> Digits:
    """Before the tasks meet, so that one with bad files doesn't leave the others waiting."""
    try:
        return load(options.data)
    except BadData as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")


def make_batches(digits: Digits, options: argparse.Namespace):
    """For a strategy's `distribute_datasets_from_function`: each worker has all images, in an order of its own."""

    def of_worker(context: tf.distribute.InputContext) -> tf.data.Dataset:
        # All workers of parameter servers are told that they are the first one.
        seed = None if IS_ASYNCHRONOUS else options.seed + context.input_pipeline_id
        training = tf.data.Dataset.from_tensor_slices((digits.training.images, digits.training.labels))
        return training.shuffle(len(digits.training.labels), seed=seed).repeat().batch(options.batch_size)

    return of_worker


def describe(digits: Digits, options: argparse.Namespace) -> str:
    """The first line of the log."""
    height, width, _ = digits.training.images.shape[1:]
    images = options.batch_size if IS_ASYNCHRONOUS else options.batch_size * WORKERS
    how = "at its own pace" if IS_ASYNCHRONOUS else "in step"
    return (
        f"{len(digits.training.labels)} images to train on, {len(digits.testing.labels)} to test, {height}x{width}, "
        f"{digits.classes} classes; {WORKERS} workers, each {how}; {options.steps} updates of {images} images"
    )


def finish(keras, model, digits: Digits, options: argparse.Namespace, facts: dict[str, object]) -> None:
    """Tests a copy of the model on images that it hasn't seen, and saves it with `metrics.json`, on one task."""
    if not IS_LEADER:
        return
    own = network(keras, digits, options.seed)
    own.set_weights(model.get_weights())
    logits = own(digits.testing.images).numpy()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(digits.testing.labels, logits)
    accuracy = float(np.mean(logits.argmax(axis=1) == digits.testing.labels))
    test = {"loss": float(loss), "accuracy": accuracy, "images": len(logits)}
    say(f"test: loss={test['loss']:.4f} accuracy={accuracy:.4f} images={test['images']}")
    options.model_dir.mkdir(parents=True, exist_ok=True)
    own.save(options.model_dir / "model.keras")
    whole = {"test": test, **facts, "steps": options.steps, "workers": WORKERS, "seed": options.seed}
    (options.model_dir / "metrics.json").write_text(json.dumps(whole, indent=1), encoding="utf-8")
    say(f"saved {options.model_dir.name}/model.keras")
