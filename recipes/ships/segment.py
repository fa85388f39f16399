"""Trains a U-Net on resnet34 that marks the pixels of ships, by fast.ai with MixedLoss(10, 2), on any number of ranks.

Its encoder begins with the body of the classifier that --body names. Rank 0 exports the model and a picture of
predictions beside the truth.
"""

import json
import sys
from pathlib import Path

import torch
from learners import begin, distributed, export, last_values, parser_of, write_facts
from losses import MixedLoss, constant_dice, hard_dice
from matplotlib import pyplot as plt
from vision import (
    DataBlock,
    DataLoaders,
    Dice,
    ImageBlock,
    Learner,
    MaskBlock,
    Normalize,
    Resize,
    ResizeMethod,
    aug_transforms,
    get_image_files,
    imagenet_stats,
    resnet34,
    unet_learner,
)

from drumbeat import train

CODES = ["sea", "ship"]
SHOWN = 8
"""Tiles in the picture."""


def mask_path(image: Path) -> Path:
    """Where a tile's mask lies."""
    return image.parent.parent / "masks" / f"{image.stem}.png"


def part_of(image: Path) -> str:
    """Whether a tile is to train or to validate."""
    return image.parent.parent.name


def is_held_out(images: list[Path]) -> tuple[list[int], list[int]]:
    """The places of the tiles to train on, and of those to validate on."""
    parts = [part_of(image) for image in images]
    return [at for at, part in enumerate(parts) if part == "train"], [at for at, p in enumerate(parts) if p == "valid"]


def load(tiles: Path, size: int, batch: int, workers: int) -> DataLoaders:
    """Images with their masks, turned and mirrored while training."""
    block = DataBlock(
        blocks=(ImageBlock, MaskBlock(codes=CODES)),
        get_items=lambda folder: sorted(path for path in get_image_files(folder) if path.parent.name == "images"),
        get_y=mask_path,
        splitter=is_held_out,
        item_tfms=Resize(size, method=ResizeMethod.Squish),
        batch_tfms=[*aug_transforms(flip_vert=True, max_warp=0), Normalize.from_stats(*imagenet_stats)],
    )
    return block.dataloaders(tiles, bs=batch, num_workers=workers)


def predict(learner: Learner) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    """Pictures, true masks and predicted masks of the validation set, on this rank alone."""
    images, truths, masks = [], [], []
    model = learner.model.eval()
    with torch.no_grad():
        for pixels, truth in learner.dls.valid:
            masks += list(model(pixels).argmax(dim=1).cpu())
            images += list(learner.dls.valid.after_batch.decode((pixels, truth))[0].cpu() / 255)
            truths += list(truth.cpu())
    return images, truths, masks


def picture(learner: Learner, path: Path) -> None:
    """Writes some tiles of the validation set, each with its true and its predicted mask."""
    images, truths, masks = predict(learner)
    # From the largest ship to the smallest, evenly.
    order = sorted(range(len(images)), key=lambda at: -int(truths[at].sum()))
    shown = [order[round(at)] for at in torch.linspace(0, len(order) - 1, min(SHOWN, len(order))).tolist()]
    figure, axes = plt.subplots(3, len(shown), figsize=(2 * len(shown), 6.6), squeeze=False)
    for column, at in enumerate(shown):
        score = hard_dice(masks[at].float(), truths[at].float())
        rows = (
            (images[at].permute(1, 2, 0).clamp(0, 1), "image"),
            (truths[at], "truth"),
            (masks[at], f"dice {score:.2f}"),
        )
        for row, (content, title) in enumerate(rows):
            axes[row][column].imshow(content.numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes[row][column].set_title(title, fontsize=9)
            axes[row][column].axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main() -> None:
    """Trains, exports, draws."""
    parser = parser_of(__doc__.splitlines()[0])
    parser.add_argument("--body", type=Path, help="folder with body.pt of a classifier")
    parser.add_argument("--alpha", type=float, default=10.0)
    parser.add_argument("--gamma", type=float, default=2.0)
    parser.add_argument("--threshold", type=float, default=0.0, help="the dice below which the job fails")
    parser.set_defaults(batch_size=16, start_lr=1e-6, end_lr=1e-3)
    options = parser.parse_args()
    tiles = options.data / "tiles"
    if not tiles.is_dir():
        sys.exit(f"segment.py: {options.data} holds no tiles: prepare.py writes them")
    world = begin(options)
    loaders = load(tiles, options.image_size, options.batch_size, options.workers)
    learner = unet_learner(
        loaders,
        resnet34,
        n_out=len(CODES),
        pretrained=bool(options.pretrained),
        loss_func=MixedLoss(options.alpha, options.gamma),
        metrics=[Dice()],
        wd=1e-7,
        path=options.model_dir,
    )
    if options.body:
        learner.model[0].load_state_dict(torch.load(options.body / "body.pt", map_location="cpu", weights_only=True))
    learner.unfreeze()
    distributed(learner, world)
    learner.fit_one_cycle(options.epochs, slice(options.start_lr, options.end_lr))
    values = last_values(learner)
    print(f"Worker #{world.rank}: loss={values['valid_loss']:.4f} dice={values['dice']:.4f}", flush=True)
    if world.is_first:
        finish(learner, options, {**values, "ranks": world.world_size, "epochs": options.epochs})
    if values["dice"] < options.threshold:
        sys.exit(f"segment.py: dice {values['dice']:.4f} is below the threshold {options.threshold}")
    train.leave()


def finish(learner: Learner, options, facts: dict[str, object]) -> None:
    """Writes model, picture and facts."""
    options.model_dir.mkdir(parents=True, exist_ok=True)
    fraction = json.loads((options.data / "facts.json").read_text())["valid"]["ship_fraction"]
    facts |= {"dice_of_a_constant_mask": round(constant_dice(fraction), 5), "threshold": options.threshold}
    picture(learner, options.model_dir / "predictions.png")
    export(learner, "segmentation.pkl")
    write_facts(options.model_dir, facts)
    print(
        f"dice={facts['dice']:.4f} (a constant mask: {facts['dice_of_a_constant_mask']}); saved segmentation.pkl",
        flush=True,
    )


if __name__ == "__main__":
    main()
