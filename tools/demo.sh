#!/usr/bin/env bash
# The main job, as a newcomer sees it: prepares data, trains on 2 nodes × 2 ranks, live, then says what came of it.
# Usage: tools/demo.sh [FOLDER]     FOLDER: Fashion-MNIST's own four IDX files; without it, scikit-learn's digits
# ENGINE=netlab, ssh, slurm, slurm-cloud, kubernetes, kubernetes-real or ray with NODES=3 runs the same file on nodes with addresses of their own, made on this machine (root).
set -euo pipefail
cd "$(dirname "$0")/.."

engine=${ENGINE:-local} nodes=${NODES:-2}
if [ "$engine" != local ] && [ -z "${DEMO_COMPUTE:-}" ]; then
    exec .venv/bin/python -m tools.demo_on "$engine" "$nodes" "$0" "$@"
fi

recipe=recipes/fashion_mnist
drumbeat=.venv/bin/drumbeat
name=demo-$(date +%Y%m%d-%H%M%S)
results=demo/$name

say() { printf '\ndemo: %s\n' "$*"; }

# Sixty thousand pictures take minutes an epoch on a laptop; three epochs are enough to see it learn.
epochs=8
if [ $# -gt 0 ]; then
    data=$1 epochs=3
    if [ ! -d "$data" ]; then echo "demo: $data isn't a folder; DATA names one with Fashion-MNIST's files" >&2; exit 2; fi
else
    data=.cache/digits
    say "writing handwritten digits to $data"
    .venv/bin/python "$recipe/make_digits.py" "$data"
fi

where=(--set "compute=${DEMO_COMPUTE:-local}" --set "resources.instance_count=$nodes")
# The batch of all ranks together must split evenly over them.
if [ $((64 % (nodes * 2))) != 0 ]; then where+=(--set "inputs.batch_size=$((64 - 64 % (nodes * 2)))"); fi
say "drumbeat run $recipe/job.yml --set inputs.data=$data --set inputs.epochs=$epochs ${where[*]} --name $name"
"$drumbeat" run "$recipe/job.yml" --set "inputs.data=$(realpath "$data")" --set "inputs.epochs=$epochs" "${where[@]}" --name "$name"

say "drumbeat download $name --to $results"
"$drumbeat" download "$name" --to "$results"
metrics=$(find "$results" -name metrics.json | head -n 1)
if [ -z "$metrics" ]; then echo "demo: the job ended well, but $results holds no metrics.json" >&2; exit 1; fi

.venv/bin/python - "$metrics" "$name" <<'PYTHON'
import json
import sys
from pathlib import Path

path, name = Path(sys.argv[1]), sys.argv[2]
metrics = json.loads(path.read_text(encoding="utf-8"))
test = metrics["test"]
print(f"""
demo: {name} is done
  accuracy   {test["accuracy"]:.1%} on {test["images"]} held-out images
  speed      {metrics["images_per_s"]:,} images/s over {metrics["ranks"]} ranks
  model      {path.with_name("model.pt")}
  logs       .venv/bin/drumbeat logs {name}
  all of it  .venv/bin/drumbeat show {name}""")
PYTHON
