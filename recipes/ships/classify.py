"""Trains a classifier of tiles, ship or no ship: resnet34 with one-cycle, by fast.ai, on any number of ranks.

The metric `dice` is 2·TP / (2·TP + FP + FN) of the class ship, which is F1.
"""

import sys

import torch
from learners import begin, distributed, export, last_values, parser_of, write_facts
from vision import (
    Dice,
    ImageDataLoaders,
    Normalize,
    Resize,
    accuracy,
    aug_transforms,
    imagenet_stats,
    resnet34,
    vision_learner,
)

from drumbeat import train


def main() -> None:
    """Trains, and saves the classifier and the weights of its body."""
    parser = parser_of(__doc__.splitlines()[0])
    options = parser.parse_args()
    classes = options.data / "classes"
    if not classes.is_dir():
        sys.exit(f"classify.py: {options.data} holds no classes: prepare.py writes them")
    world = begin(options)
    loaders = ImageDataLoaders.from_folder(
        classes,
        train="train",
        valid="valid",
        item_tfms=Resize(options.image_size),
        batch_tfms=[*aug_transforms(flip_vert=True, max_warp=0), Normalize.from_stats(*imagenet_stats)],
        bs=options.batch_size,
        num_workers=options.workers,
        seed=options.seed,
    )
    if list(loaders.vocab) != ["no-ship", "ship"]:
        sys.exit(f"classify.py: {classes} holds the classes {', '.join(loaders.vocab)}, not no-ship and ship")
    learner = vision_learner(
        loaders, resnet34, pretrained=bool(options.pretrained), metrics=[Dice(), accuracy], path=options.model_dir
    )
    if not options.pretrained:
        learner.unfreeze()
    distributed(learner, world)
    learner.fit_one_cycle(options.epochs, slice(options.start_lr, options.end_lr))
    values = last_values(learner)
    print(f"Worker #{world.rank}: loss={values['valid_loss']:.4f} dice={values['dice']:.4f}", flush=True)
    if world.is_first:
        options.model_dir.mkdir(parents=True, exist_ok=True)
        export(learner, "classifier.pkl")
        torch.save(learner.model[0].state_dict(), options.model_dir / "body.pt")
        write_facts(options.model_dir, {**values, "ranks": world.world_size, "epochs": options.epochs})
        print(f"dice={values['dice']:.4f}; saved classifier.pkl", flush=True)
    train.leave()


if __name__ == "__main__":
    main()
