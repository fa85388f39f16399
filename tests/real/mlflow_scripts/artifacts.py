"""Artifacts: files, folders, texts, JSON; listed and read back."""

import contextlib
import os
import tempfile
from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from requests import HTTPError

client = MlflowClient()
mlflow.set_experiment("artifacts")
folder = Path(tempfile.mkdtemp())
(folder / "in").mkdir()
(folder / "in/x.bin").write_bytes(b"x" * 3_000_000)
(folder / "top ü.txt").write_text("t")

with mlflow.start_run() as run:
    mlflow.log_text("hello", "texts/hello.txt")
    mlflow.log_dict({"a": [1]}, "d.json")
    mlflow.log_artifact(folder / "top ü.txt")
    mlflow.log_artifacts(folder, "many")
    mlflow.log_text("hello again", "texts/hello.txt")

run_id = run.info.run_id
assert sorted(one.path for one in client.list_artifacts(run_id)) == ["d.json", "many", "texts", "top ü.txt"]
(binary,) = client.list_artifacts(run_id, "many/in")
assert (binary.path, binary.is_dir, binary.file_size) == ("many/in/x.bin", False, 3_000_000)
assert client.list_artifacts(run_id, "d.json") == []
assert client.list_artifacts(run_id, "missing") == []
assert mlflow.artifacts.load_text(f"{run.info.artifact_uri}/texts/hello.txt") == "hello again"
assert mlflow.artifacts.load_dict(f"runs:/{run_id}/d.json") == {"a": [1]}
down = Path(mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="many"))
assert (down / "in/x.bin").read_bytes() == b"x" * 3_000_000
assert (down / "top ü.txt").read_text() == "t"
with contextlib.suppress(MlflowException, HTTPError):
    client.download_artifacts(run_id, "missing.txt")
    raise AssertionError("the artifact doesn't exist")

os.environ["MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD"] = "true"
os.environ["MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE"] = "1000000"
client.log_artifact(run_id, str(folder / "in/x.bin"), "parts")
assert [one.file_size for one in client.list_artifacts(run_id, "parts")] == [3_000_000]
