"""What logging metrics costs a script: calls of `drumbeat.log` and of MLflow's client, in a job on this machine.

python -m bench.metric_calls --write docs/bench/metric-calls.md
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench.serving import serving
from bench.start import describe_machine
from drumbeat.client import Client

CALLS, MLFLOW_CALLS = 150_000, 500
SCRIPT = f"""
import importlib.util, time, drumbeat
drumbeat.log  # the import isn't measured
begin = time.perf_counter()
for step in range({CALLS}):
    drumbeat.log(loss=1 / (1 + step), step=step)
print("drumbeat.log", {CALLS} / (time.perf_counter() - begin))
if importlib.util.find_spec("mlflow"):
    import mlflow
    mlflow.log_metric("warm", 0)
    begin = time.perf_counter()
    for step in range({MLFLOW_CALLS}):
        mlflow.log_metric("single", step, step=step)
    print("mlflow.log_metric", {MLFLOW_CALLS} / (time.perf_counter() - begin))
print("end", time.time())
"""
PAGE = """\
# What logging metrics costs a script

<!-- Written by `python -m bench.metric_calls`. -->

One rank in a job on this machine, {calls:,} calls of `drumbeat.log` and {mlflow_calls} of `mlflow.log_metric`, one
after the other. Every call of MLflow's client waits until the node's disk has the point; `drumbeat.log` waits for
nothing. The server had all points {late:.1f} s after the end of the script at the latest.

| call | calls a second |
|---|---|
{rows}

Machine: {machine}.
"""


def measure(client: Client, folder: Path) -> tuple[dict[str, float], float]:
    """Returns calls a second by function, and the seconds from the end of the rank to that of the job."""
    (folder / "t.py").write_text(SCRIPT)
    job = client.submit(
        {"name": "metric-calls", "command": f"{sys.executable} {folder}/t.py", "drumbeat": {"environment": "current"}}
    ).name
    ended = client.wait(job)
    if ended is None or ended.state != "completed":
        raise SystemExit(f"the job didn't complete: {ended and ended.sentence}")
    text = "".join(piece.text for piece in client.logs(job))
    rates = {name: float(rate) for name, rate in (line.split() for line in text.splitlines() if len(line.split()) == 2)}
    counts = {one.name: one.count for one in client.metrics(job).series if one.rank == 0}
    if counts["loss"] != CALLS:
        raise SystemExit(f"{CALLS - counts['loss']:,} points are missing")
    script_end = rates.pop("end")
    return rates, (ended.ended_at.timestamp() if ended.ended_at else script_end) - script_end


def main() -> None:
    """Measures and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving() as home, Client(home=home) as client:
        rates, late = measure(client, Path(folder))
    rows = "\n".join(f"| `{name}` | {rate:,.0f} |" for name, rate in rates.items())
    page = PAGE.format(calls=CALLS, mlflow_calls=MLFLOW_CALLS, rows=rows, late=late, machine=describe_machine())
    print(page)
    if wanted.write:
        wanted.write.write_text(page)


if __name__ == "__main__":
    main()
