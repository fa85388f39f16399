#!/usr/bin/env bash
# The ship recipe, small: makes images, prepares tiles, searches a classifier's learning rates, trains a U-Net.
# Usage: tools/ships.sh [FOLDER]     FOLDER: the Airbus data's CSV and images; without it, 80 generated ones
set -euo pipefail
cd "$(dirname "$0")/.."

recipe=recipes/ships
drumbeat=.venv/bin/drumbeat
name=ships-$(date +%Y%m%d-%H%M%S)
results=demo/$name

say() { printf '\nships: %s\n' "$*"; }

if [ $# -gt 0 ]; then
    data=$1
    if [ ! -d "$data" ]; then echo "ships: $data isn't a folder; DATA names one with train_ship_segmentations.csv" >&2; exit 2; fi
else
    data=.cache/ships
    say "generating satellite images into $data"
    .venv/bin/python "$recipe/make_images.py" "$data" --images 80 --seed 1
fi

# What two CPU cores train in minutes. A constant mask reaches a dice of 0.043.
small=(image_size=64 classify_epochs=4 classify_batch=8 segment_epochs=5 segment_batch=4
    segment_start_lr=0.003 segment_end_lr=0.003 threshold=0.3)
settings=(--set "inputs.data.path=$(realpath "$data")")
for one in "${small[@]}"; do settings+=(--set "inputs.$one"); done

say "the first run builds the environment fastai, which is kept"
say "drumbeat run $recipe/pipeline.yml ${settings[*]} --name $name"
started=$SECONDS
"$drumbeat" run "$recipe/pipeline.yml" "${settings[@]}" --name "$name"
say "the trials of the sweep"
"$drumbeat" sweep trials "${name}_classify"
say "drumbeat download $name --to $results"
"$drumbeat" download "$name" --to "$results"
metrics=$(find "$results" -name metrics.json | head -n 1)
if [ -z "$metrics" ]; then echo "ships: the pipeline ended well, but $results holds no metrics.json" >&2; exit 1; fi

.venv/bin/python - "$metrics" "$name" $((SECONDS - started)) <<'PYTHON'
import json
import sys
from pathlib import Path

path, name, seconds = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
facts = json.loads(path.read_text(encoding="utf-8"))
print(f"""
ships: {name} is done after {seconds} s
  dice       {facts["dice"]:.3f} on held-out tiles; a constant mask reaches {facts["dice_of_a_constant_mask"]:.3f}
  model      {path.with_name("segmentation.pkl")}
  picture    {path.with_name("predictions.png")}
  all of it  {".venv/bin/drumbeat show " + name}""")
PYTHON
