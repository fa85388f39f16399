"""The settings of a training: options of the command line, else environment variables, else defaults.

Names and defaults are those of Microsoft's DistributedDeepLearning, whose scripts ran on Azure Batch AI. Standard
library only.
"""

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

FAKE_CLASSES = 1000
TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


@dataclass(frozen=True)
class Settings:
    """What is trained on what, and how."""

    model: str
    distributed: str
    """`ddp`, `horovod` or `none`."""
    train: Path | None
    """Folder of class folders of JPEG files; None = synthetic images."""
    test: Path | None
    """The same to validate with; None = no validation."""
    model_dir: Path
    epochs: int
    batch_size: int
    """Of each rank."""
    image_size: int
    base_lr: float
    """Of one rank."""
    rule: str
    momentum: float
    weight_decay: float
    warmup_epochs: float
    seed: int
    workers: int
    """Processes of each rank that read images."""
    fake_images: int
    """Length of an epoch of synthetic images."""
    checkpoint_every: int
    """Steps between two checkpoints; 0 = none."""
    measure_steps: int
    """Steps to measure instead of a training; 0 = train."""
    channels_last: bool
    compile: bool
    precision: str
    """`fp32` or `bf16`."""

    @property
    def dataset(self) -> str:
        """The name of the data in the log."""
        return "ImageNet folders" if self.train else "synthetic"


def truth(name: str, default: str) -> bool:
    """Returns an environment variable that is true or false."""
    value = os.environ.get(name, default).strip().lower()
    if value not in (*TRUE, *FALSE):
        sys.exit(f"{name}={value!r} is neither true nor false: write True or False")
    return value in TRUE


def number(name: str, default: int) -> int:
    """Returns an environment variable that is a whole number."""
    value = os.environ.get(name, str(default))
    if not value.strip().isdigit():
        sys.exit(f"{name}={value!r} is no whole number of at least 0")
    return int(value)


def folder(*names: str) -> Path | None:
    """Returns the folder in the first of these variables that is set."""
    return next((Path(os.environ[name]) for name in names if os.environ.get(name)), None)


def read_settings(about: str, *, models: tuple[str, ...], ways: tuple[str, ...], size: int) -> Settings:
    """Returns the settings of this process; ends it with a sentence if they are invalid.

    ways: the values of `--distributed` that the script has, the default first. size: the number of ranks.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--model", choices=models, default=os.environ.get("MODEL", "resnet50"))
    parser.add_argument("--distributed", choices=(*ways, "none"), help="by default what DISTRIBUTED says")
    parser.add_argument("--train", type=Path, default=folder("AZ_BATCHAI_INPUT_TRAIN"), metavar="FOLDER")
    parser.add_argument("--test", type=Path, default=folder("AZ_BATCHAI_INPUT_TEST"), metavar="FOLDER")
    fallback = folder("AZ_BATCHAI_OUTPUT_MODEL", "AZ_BATCHAI_JOB_TEMP_DIR") or Path("model")
    parser.add_argument("--model-dir", type=Path, default=fallback, metavar="FOLDER")
    parser.add_argument("--fake", action="store_true", help="train on synthetic images (FAKE=True)")
    parser.add_argument("--fake-images", type=int, default=number("FAKE_DATA_LENGTH", 1281167))
    parser.add_argument("--epochs", type=int, default=number("EPOCHS", 1))
    parser.add_argument("--batch-size", type=int, default=number("BATCHSIZE", 64), help="of each rank (64)")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--base-lr", type=float, default=0.001, help="of one rank (0.001)")
    parser.add_argument("--rule", choices=("linear", "sqrt", "lars", "none"), default="linear")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=5e-5)
    parser.add_argument("--warmup-epochs", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--workers", type=int, default=number("NUM_WORKERS", 10), help="that read images (10)")
    parser.add_argument("--checkpoint-every", type=int, default=0, metavar="STEPS")
    parser.add_argument("--measure-steps", type=int, default=0, metavar="STEPS", help="measure, don't train")
    parser.add_argument("--channels-last", action="store_true", help="for GPUs: the layout of their convolutions")
    parser.add_argument("--compile", action="store_true", help="compile the network (PyTorch)")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    given = vars(parser.parse_args())
    is_fake = given.pop("fake") or truth("FAKE", "False")
    if is_fake or not truth("VALIDATION", "True"):
        given["test"] = None
    if is_fake:
        given["train"] = None
    elif given["train"] is None:
        parser.error("there are no images: name their folder (--train, AZ_BATCHAI_INPUT_TRAIN), or set FAKE=True")
    for name in ("epochs", "batch_size", "image_size", "fake_images"):
        if given[name] < 1:
            parser.error(f"--{name.replace('_', '-')} {given[name]}: at least 1 is needed")
    given["distributed"] = _way(parser, given["distributed"], ways, size)
    return Settings(**given)


def _way(parser: argparse.ArgumentParser, chosen: str | None, ways: tuple[str, ...], size: int) -> str:
    """DISTRIBUTED is True, False, or the name of a way; unset, ranks that are several train together."""
    said = os.environ.get("DISTRIBUTED", str(size > 1)).strip().lower()
    way = chosen or (said if said in ways else ways[0] if truth("DISTRIBUTED", str(size > 1)) else "none")
    if way == "none" and size > 1:
        parser.error(f"DISTRIBUTED is False, and there are {size} ranks: each would train a model of its own")
    return way
