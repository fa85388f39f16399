"""What both trainings share: options, learners that tell of each epoch, and facts that are kept."""

import argparse
import json
import os
from pathlib import Path

from vision import Callback, Learner, ProgressCallback, set_seed

from drumbeat import train
from drumbeat.train.fastai import to_drumbeat


def parser_of(description: str) -> argparse.ArgumentParser:
    """The options that both trainings have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, required=True, help="what prepare.py has written")
    parser.add_argument("--model-dir", type=Path, required=True, help="where rank 0 saves the model")
    parser.add_argument("--image-size", type=int, default=256, help="to which tiles are scaled")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--start-lr", type=float, default=1e-3, help="highest rate of the first layers")
    parser.add_argument("--end-lr", type=float, default=1e-2, help="highest rate of the last layers")
    parser.add_argument("--batch-size", type=int, default=64, help="of each rank")
    parser.add_argument("--pretrained", type=int, default=0, help="1 = begin with ImageNet's weights")
    parser.add_argument("--workers", type=int, default=0, help="processes that load images, for each rank")
    parser.add_argument("--seed", type=int, default=42)
    return parser


class EpochLines(Callback):
    """Prints a line for each epoch, instead of a bar that moves."""

    order = 70

    def after_epoch(self) -> None:
        """Prints the losses and metrics, on rank 0."""
        names, values = self.learn.recorder.metric_names[1:], self.learn.recorder.values[-1]
        told = [f"{name}={value:.4f}" for name, value in zip(names, values, strict=False) if value is not None]
        print(f"epoch {self.learn.epoch + 1}/{self.learn.n_epoch}: {' '.join(told)}", flush=True)


def begin(options: argparse.Namespace) -> train.TrainingWorld:
    """The world of this rank; the recorded rates are those of the last layers."""
    world = train.init()
    print(world, flush=True)
    # The rates are what the sweep looks for: they are taken as they are.
    train.scaled(options.end_lr, batch_per_rank=options.batch_size, rule="none")
    set_seed(options.seed + world.rank)
    return world


def distributed(learner: Learner, world: train.TrainingWorld) -> Learner:
    """The learner on all ranks, telling of its epochs by lines."""
    to_drumbeat(learner)
    learner.remove_cb(ProgressCallback)
    learner.logger = _print_nothing
    if world.is_first:
        learner.add_cb(EpochLines())
    return learner


def export(learner: Learner, name: str) -> None:
    """Exports the learner without what only the training needs, so that it loads without this file."""
    learner.remove_cb(EpochLines)
    learner.logger = print
    learner.export(name)


def last_values(learner: Learner) -> dict[str, float]:
    """The losses and metrics of the last epoch, over all ranks."""
    names, values = learner.recorder.metric_names[1:], learner.recorder.values[-1]
    return {name: round(float(value or 0), 5) for name, value in zip(names, values, strict=False)}


def write_facts(folder: Path, facts: dict[str, object]) -> None:
    """Writes metrics.json, whole or not at all."""
    part = folder / f".metrics.{os.getpid()}"
    part.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    part.replace(folder / "metrics.json")


def _print_nothing(*_: object) -> None:
    """Takes the place of fast.ai's printing."""
