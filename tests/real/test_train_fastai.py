"""`to_drumbeat`: a fast.ai learner trained by two ranks is the one that a single process trains."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools import curated_environments

pytestmark = [pytest.mark.feature("L10", "T2"), pytest.mark.thorough, pytest.mark.timeout(900)]

SCRIPT = """
import json, sys
from pathlib import Path
import cloudpickle
import torch
from fastai.basics import *
from fastai.metrics import accuracy
from drumbeat import train
from drumbeat.train.fastai import to_drumbeat

torch.manual_seed(3)
x = torch.randn(37, 4)
samples = list(zip(x, (x.sum(1) > 0).long()))
world = train.init()
batch = 8 // world.world_size
# 24 samples to train on split evenly; 13 to validate on don't.
loaders = DataLoaders(DataLoader(samples[:24], bs=batch), DataLoader(samples[24:], bs=batch))
model = nn.Linear(4, 2)
learner = Learner(loaders, model, loss_func=nn.CrossEntropyLoss(), metrics=[accuracy], opt_func=SGD, lr=0.1)
to_drumbeat(learner)
learner.fit(2)
values = [list(map(float, row)) for row in learner.recorder.values]
seen = [len(learner.get_preds(ds_idx=1)[0]) if world.is_first else 13]
norm = nn.BatchNorm1d(4)
normed = Learner(loaders, nn.Sequential(norm, nn.Linear(4, 2)), loss_func=nn.CrossEntropyLoss(), opt_func=SGD, lr=0.1)
to_drumbeat(normed).fit(1)
restored = cloudpickle.loads(cloudpickle.dumps(learner.cbs))
Path(sys.argv[1], f"{world.rank}.json").write_text(json.dumps({
    "weights": model.weight.flatten().tolist(),
    "values": values,
    "predictions": seen,
    "mean": norm.running_mean.tolist(),
    "callbacks": sorted(type(one).__name__ for one in restored),
}))
train.leave()
"""


@pytest.fixture(scope="module")
def fastai() -> Path:
    try:
        return curated_environments.folder("fastai") / "bin"
    except LookupError as error:
        pytest.skip(str(error))


def run(line: list[str | Path], results: Path) -> list[dict[str, Any]]:
    """Returns what each rank wrote into the folder, in their order: lines of two ranks on one stdout may mix."""
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    results.mkdir()
    done = subprocess.run([*line, results], env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(one.read_text()) for one in sorted(results.iterdir())]


def test_two_ranks_train_the_weights_of_one(fastai: Path, tmp_path: Path):
    script = tmp_path / "fit.py"
    script.write_text(SCRIPT)
    (alone,) = run([fastai / "python", script], tmp_path / "alone")
    pair = run([fastai / "torchrun", "--standalone", "--nproc-per-node", "2", script], tmp_path / "pair")
    assert len(pair) == 2
    for one in pair:
        assert one["weights"] == pytest.approx(alone["weights"], abs=1e-6)
        assert one["values"] == [pytest.approx(row, abs=1e-5) for row in alone["values"]]
        assert one["mean"] == pair[0]["mean"], "the mean of both ranks"
        assert one["predictions"] == [13], "rank 0 predicts on its own, without the other"
        assert "DrumbeatCallback" not in one["callbacks"]
