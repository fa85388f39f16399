"""One rank of the benchmark of metrics: logs with MLflow's own client for some seconds, once all ranks are ready.

    python log_points.py single|batch SECONDS RANKS FOLDER

It writes a JSON file into the folder: points, calls, the moments of begin and end, the slowest call in seconds.
"""

import json
import os
import sys
import time
from pathlib import Path

import mlflow
from mlflow.entities import Metric

BATCH = 1000


def main() -> None:
    """Logs."""
    way, seconds, ranks, folder = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    rank, run = int(os.environ["RANK"]), os.environ["MLFLOW_RUN_ID"]
    client = mlflow.MlflowClient()
    client.get_run(run)
    (folder / f"ready-{rank}").touch()
    while len(list(folder.glob("ready-*"))) < ranks:
        time.sleep(0.01)
    begun, slowest, calls, step = time.time(), 0.0, 0, 0
    while time.time() - begun < seconds:
        before = time.perf_counter()
        if way == "single":
            client.log_metric(run, "loss", 1.0 / (step + 1), step=step)
            step += 1
        else:
            now = int(time.time() * 1000)
            client.log_batch(run, [Metric("loss", 1.0 / (step + n + 1), now, step + n) for n in range(BATCH)])
            step += BATCH
        calls += 1
        slowest = max(slowest, time.perf_counter() - before)
    seen = {"points": step, "calls": calls, "begun": begun, "ended": time.time(), "slowest": slowest}
    partial = folder / f".{rank}"
    partial.write_text(json.dumps(seen), encoding="utf-8")
    partial.rename(folder / f"rank-{rank}.json")


if __name__ == "__main__":
    main()
