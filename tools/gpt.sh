#!/usr/bin/env bash
# Trains recipes/gpt: one model in the parts of a mesh, then says what came of it. STEPS=N trains shorter or longer.
# Usage: tools/gpt.sh [MESH]     MESH: such as '{fsdp: 2, tp: 2}', of 4 ranks; the recipe's own is '{pp: 2, dp: 2}'
set -euo pipefail
cd "$(dirname "$0")/.."

recipe=recipes/gpt
drumbeat=.venv/bin/drumbeat
name=gpt-$(date +%Y%m%d-%H%M%S)
results=${RESULTS:-demo}/$name
options=(--set "inputs.steps=${STEPS:-1000}")
if [ $# -gt 0 ]; then options+=(--set "drumbeat.mesh=$1"); fi

"$drumbeat" run "$recipe/job.yml" "${options[@]}" --name "$name"
"$drumbeat" download "$name" --to "$results"
metrics=$(find "$results" -name metrics.json | head -n 1)
if [ -z "$metrics" ]; then echo "gpt: the job ended well, but $results holds no metrics.json" >&2; exit 1; fi

.venv/bin/python - "$metrics" "$name" <<'PYTHON'
import json
import sys
from pathlib import Path

path, name = Path(sys.argv[1]), sys.argv[2]
metrics = json.loads(path.read_text(encoding="utf-8"))
score = metrics["held_out"]
mesh = ", ".join(f"{dimension} {size}" for dimension, size in metrics["mesh"].items())
print(f"""
gpt: {name} is done
  mesh       {mesh}
  loss       {score["loss"]:.3f} on held-out text; a perfect model has {metrics["floor"]:.2f} and a little
  sums       {score["right"]:.0%} of all sums are completed right
  model      {path.with_name("model.pt")}
  places     .venv/bin/drumbeat show {name}""")
PYTHON
