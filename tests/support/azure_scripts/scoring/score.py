"""Adds a number to that of a request, and says what its model is."""

import json
import os
import pathlib

state = {}


def init():
    state["model"] = pathlib.Path(os.environ["AZUREML_MODEL_DIR"], "b.txt").read_text()
    print("started with", os.environ["ADDED"], flush=True)


def run(data):
    return {"sum": json.loads(data)["data"] + int(os.environ["ADDED"]), "model": state["model"]}
