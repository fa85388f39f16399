import json
import pathlib
import sys

model = json.loads((pathlib.Path(sys.argv[1]) / "model.json").read_text())
rows = [line.split(",") for line in (pathlib.Path(sys.argv[2]) / "test" / "data.csv").read_text().split()]
errors = [abs(float(y) - model["slope"] * float(x)) for x, y in rows]
print("error", max(errors), "over", len(rows), "rows, learning rate", model["lr"], "of", sys.argv[3])
