import argparse
import json
import pathlib

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=pathlib.Path)
parser.add_argument("--lr", type=float)
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--model", type=pathlib.Path)
given = parser.parse_args()
rows = [line.split(",") for line in (given.data / "data.csv").read_text().split()]
slope = sum(float(y) for _, y in rows) / sum(float(x) for x, _ in rows)
(given.model / "model.json").write_text(json.dumps({"slope": slope, "lr": given.lr, "epochs": given.epochs}))
print("trained on", len(rows), "rows")
