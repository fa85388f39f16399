"""`make imagenet`: ResNet-50 on a small set of generated JPEG files, end to end, and what came of it.

Two nodes of this machine with one rank each train for some minutes; the job file is the one for real ImageNet.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "recipes" / "imagenet"
DRUMBEAT = Path(sys.executable).with_name("drumbeat")
FLOOR = 0.6
"""The accuracy that must be reached; a guess among four classes has 0.25."""
SMALL = {
    "inputs.batch_size": 8,
    "inputs.image_size": 48,
    "inputs.base_lr": 0.02,
    "inputs.warmup_epochs": 1,
    "inputs.checkpoint_every": 10,
    "environment_variables.EPOCHS": 5,
    "environment_variables.NUM_WORKERS": 0,
    "distribution.process_count_per_instance": 1,
}
"""What a laptop can do of the job file, by the keys of `--set`."""


def say(line: str) -> None:
    """Prints a line of this command's own."""
    print(f"\nimagenet: {line}", flush=True)


def sets(data: Path) -> list[str]:
    """Returns the options of `drumbeat run`."""
    values = {"inputs.train.path": data / "train", "inputs.test.path": data / "val", **SMALL}
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def main() -> int:
    """Returns 0 where the accuracy is above the floor."""
    data, name = ROOT / ".cache" / "imagenet", f"imagenet-{time.strftime('%Y%m%d-%H%M%S')}"
    if not (data / "val").exists():
        say(f"writing JPEG files to {data.relative_to(ROOT)}")
        subprocess.run([sys.executable, RECIPE / "make_images.py", data, "--test-images", "25"], check=True)
    say(f"drumbeat run {RECIPE.relative_to(ROOT)}/job.yml --name {name}")
    run = [DRUMBEAT, "run", RECIPE / "job.yml", "--name", name, *sets(data)]
    if code := subprocess.run(run, check=False).returncode:
        return code
    results = ROOT / "demo" / name
    subprocess.run([DRUMBEAT, "download", name, "--to", results], check=True, stdout=subprocess.DEVNULL)
    metrics = next(results.rglob("metrics.json"))
    return conclude(json.loads(metrics.read_text(encoding="utf-8")), metrics.with_name("model.pt"), name)


def conclude(found: dict[str, float], model: Path, name: str) -> int:
    """Prints the outcome."""
    accuracy = found["accuracy"]
    say(f"{name} is done")
    print(f"  accuracy   {accuracy:.1%} on images that it hasn't seen; at least {FLOOR:.0%} is expected")
    print(f"  speed      {found['images_per_s']:.0f} images/s over {found['ranks']} ranks")
    print(f"  model      {model}")
    print(f"  all of it  {DRUMBEAT.name} show {name}")
    if accuracy < FLOOR:
        print(f"imagenet: accuracy {accuracy:.1%} is below {FLOOR:.0%}", file=sys.stderr)
    return int(accuracy < FLOOR)


if __name__ == "__main__":
    sys.exit(main())
