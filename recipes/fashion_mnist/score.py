"""Answers what an image shows: the scoring script of the model that train.py saves.

    {"data": [[[0, 255, …], …], …]}  ->  {"labels": [7, …]}

Each image is a list of rows of pixels from 0 to 255. `drumbeat online-deployment create -f deployment.yml` starts it.
"""

import json
import os
from pathlib import Path

import torch
from train import Classifier

network: Classifier


def init() -> None:
    """Loads the model, once in each replica."""
    global network  # noqa: PLW0603 (what `init` loads is there for `run`: the contract of scoring scripts)
    torch.set_num_threads(1)  # Replicas share a machine.
    saved = torch.load(Path(os.environ["AZUREML_MODEL_DIR"]) / "model.pt", weights_only=True)
    *_, bias = saved["weights"].values()
    network = Classifier(classes=len(bias), mean=0.0, std=1.0)
    network.load_state_dict(saved["weights"])
    network.eval()


@torch.inference_mode()
def run(data: str) -> dict[str, list[int]]:
    """Answers one request."""
    images_BHW = torch.tensor(json.loads(data)["data"])
    return {"labels": network(images_BHW).argmax(dim=1).tolist()}
