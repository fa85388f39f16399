"""The model and data of the demo as a job of 2 nodes with 2 ranks each, which resumes and logs every step's loss."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RECIPE = HERE.parents[1] / "recipes" / "fashion_mnist"


def demo_job(folder: Path, compute: str) -> Path:
    """Returns its job file in a folder of its own: two epochs, a checkpoint every five steps."""
    code = folder / "demo"
    shutil.copytree(RECIPE, code)
    shutil.copy(HERE / "resumable_classifier.py", code)
    subprocess.run([sys.executable, RECIPE / "make_digits.py", code / "data"], check=True)
    job = {
        "code": ".",
        "command": "python resumable_classifier.py --data ${{inputs.data}} --epochs ${{inputs.epochs}} "
        "--model-dir ${{outputs.model}}",
        "inputs": {"data": {"type": "uri_folder", "path": "data"}, "epochs": 2},
        "outputs": {"model": {"type": "uri_folder"}},
        "compute": compute,
        "resources": {"instance_count": 2},
        "distribution": {"type": "pytorch", "process_count_per_instance": 2},
        "environment_variables": {"OMP_NUM_THREADS": "1"},
        "drumbeat": {"lost_after_s": 20},
    }
    file = code / "job.yml"
    file.write_text(json.dumps(job))
    return file
