import json
import os
import pathlib
import sys
import urllib.request

wanted, x, folder = sys.argv[1:]
(pathlib.Path(folder) / "x").write_text(x)
body = {
    "run_id": os.environ["MLFLOW_RUN_ID"],
    "key": "distance",
    "value": abs(int(x) - int(wanted)),
    "timestamp": 1,
    "step": 0,
}
request = urllib.request.Request(
    os.environ["MLFLOW_TRACKING_URI"] + "/api/2.0/mlflow/runs/log-metric",
    json.dumps(body).encode(),
    {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('MLFLOW_TRACKING_TOKEN', '')}"},
)
urllib.request.urlopen(request).read()
