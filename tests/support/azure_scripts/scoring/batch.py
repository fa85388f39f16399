"""Counts the characters of each file, and says how long the model is."""

import os
import pathlib

state = {}


def init():
    state["model"] = len(pathlib.Path(os.environ["AZUREML_MODEL_DIR"], "b.txt").read_text())


def run(mini_batch):
    return [f"{pathlib.Path(path).name} {len(pathlib.Path(path).read_text())} {state['model']}" for path in mini_batch]
