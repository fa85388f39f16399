"""Every rank says what it is; rank 0 writes a model and a note, and logs a metric."""

import argparse
import os
import pathlib

import drumbeat  # For `log`: importing mlflow takes each of the ranks a second.

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--data", default="")
parser.add_argument("--model", default="")
given = parser.parse_args()
print(f"rank {os.environ.get('RANK', '0')} of {os.environ.get('WORLD_SIZE', '1')} lr {given.lr}", flush=True)
if given.data:
    print("read", *sorted(path.name for path in pathlib.Path(given.data).rglob("*") if path.is_file()), flush=True)
if os.environ.get("RANK", "0") == "0":
    drumbeat.log(accuracy=given.lr)
    pathlib.Path("outputs").mkdir(exist_ok=True)
    pathlib.Path("outputs", "note.txt").write_text("a note\n")
    if given.model:
        pathlib.Path(given.model).mkdir(parents=True, exist_ok=True)
        pathlib.Path(given.model, "weights.txt").write_text(f"{given.lr}\n")
