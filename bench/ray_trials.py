"""`python ray_trials.py TRIALS CONCURRENT PYTHON SCRIPT`: a sweep of Ray Tune; prints its seconds.

It runs in a virtual environment that has Ray and nothing of drumbeat.
"""

import os
import subprocess
import sys
import tempfile
import time

import ray
from ray import tune

TRIALS, CONCURRENT = int(sys.argv[1]), int(sys.argv[2])
COMMAND = sys.argv[3:5]


def call_trial(config: dict[str, int]) -> None:
    """Runs the script and reports the value that it printed."""
    answer = subprocess.run([*COMMAND, str(config["x"])], check=True, stdout=subprocess.PIPE).stdout
    tune.report({"score": float(answer)})


def main() -> None:
    """Starts a cluster, and measures the sweep alone."""
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    ray.init(num_cpus=CONCURRENT, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            call_trial,
            param_space={"x": tune.grid_search(list(range(TRIALS)))},
            tune_config=tune.TuneConfig(metric="score", mode="max", max_concurrent_trials=CONCURRENT),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        begun = time.monotonic()
        results = tuner.fit()
        took_s = time.monotonic() - begun
    assert results.get_best_result().metrics["score"] == TRIALS - 1
    ray.shutdown()
    print(took_s)


if __name__ == "__main__":
    main()
