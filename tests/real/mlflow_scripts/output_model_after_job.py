"""A client outside of jobs loads a model that a job left as an output, and registers its own version of the name."""

import mlflow
import numpy as np
from mlflow import MlflowClient
from sklearn.linear_model import LogisticRegression

client = MlflowClient()
samples, labels = np.arange(40, dtype=float).reshape(20, 2), np.array([0, 1] * 10)
assert [one.name for one in client.search_registered_models()] == ["made"]
for uri in ("models:/made/1", "models:/made@champion"):
    folder = mlflow.artifacts.download_artifacts(uri)
    loaded = mlflow.sklearn.load_model(f"{folder}/net")
    assert loaded.predict(samples).shape == (20,), loaded
mlflow.set_experiment("more")
with mlflow.start_run():
    named = {"name": "net"} if hasattr(mlflow, "get_logged_model") else {"artifact_path": "net"}
    mlflow.sklearn.log_model(LogisticRegression().fit(samples, labels), registered_model_name="made", **named)
assert int(client.get_registered_model("made").latest_versions[0].version) == 2
