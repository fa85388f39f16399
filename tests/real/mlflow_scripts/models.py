"""`log_model` whole, registered and loaded again; figures, tables, images and datasets; scikit-learn's autolog."""

import matplotlib as mpl
import mlflow
import numpy as np
from checks import IS_NEW
from matplotlib import pyplot as plt
from mlflow import MlflowClient
from sklearn.linear_model import LogisticRegression

mpl.use("Agg")
client = MlflowClient()
mlflow.set_experiment("models")
samples, labels = np.arange(40, dtype=float).reshape(20, 2), np.array([0, 1] * 10)
named = {"name": "model"} if IS_NEW else {"artifact_path": "model"}

with mlflow.start_run() as run:
    model = LogisticRegression().fit(samples, labels)
    info = mlflow.sklearn.log_model(model, registered_model_name="logit", input_example=samples[:2], **named)
    mlflow.log_table({"a": [1, 2], "b": ["x", "y"]}, "table.json")
    figure, axes = plt.subplots()
    axes.plot([1, 2])
    mlflow.log_figure(figure, "figure.png")
    mlflow.log_image(np.zeros((4, 4, 3), dtype=np.uint8), "black.png")
    mlflow.log_input(mlflow.data.from_numpy(samples, name="samples"), context="train")

for loaded in (mlflow.pyfunc.load_model("models:/logit/1"), mlflow.sklearn.load_model(info.model_uri)):
    assert (loaded.predict(samples) == model.predict(samples)).all()
assert mlflow.load_table("table.json", run_ids=[run.info.run_id])["a"].tolist() == [1, 2]
assert client.get_run(run.info.run_id).inputs.dataset_inputs[0].dataset.name == "samples"
assert len(mlflow.search_runs(experiment_names=["models"], filter_string="dataset.name = 'samples'")) == 1
assert {"figure.png", "table.json", "black.png"} <= {one.path for one in client.list_artifacts(run.info.run_id)}
assert client.get_model_version("logit", "1").run_id == run.info.run_id

if IS_NEW:
    logged = mlflow.get_logged_model(info.model_id)
    assert (logged.status, logged.source_run_id) == ("READY", run.info.run_id)
    assert [one.model_id for one in client.get_run(run.info.run_id).outputs.model_outputs] == [info.model_id]
    with mlflow.start_run(run_id=run.info.run_id):
        mlflow.log_metric("acc", 0.7, model_id=info.model_id)
    assert [one.value for one in mlflow.get_logged_model(info.model_id).metrics] == [0.7]
    for text in ("name = 'model'", "metrics.acc > 0.5"):
        found = mlflow.search_logged_models(
            experiment_ids=[run.info.experiment_id], filter_string=text, output_format="list",
            order_by=[{"field_name": "metrics.acc", "ascending": False}],
        )  # fmt: skip
        assert [one.model_id for one in found] == [info.model_id]
    mlflow.set_logged_model_tags(info.model_id, {"k": "v"})
    assert mlflow.get_logged_model(info.model_id).tags["k"] == "v"
    client.delete_logged_model_tag(info.model_id, "k")
    assert "k" not in mlflow.get_logged_model(info.model_id).tags
    assert "MLmodel" in [one.path for one in client.list_logged_model_artifacts(info.model_id)]
    client.delete_logged_model(info.model_id)

mlflow.sklearn.autolog()
with mlflow.start_run() as auto:
    LogisticRegression(C=0.5).fit(samples, labels)
got = client.get_run(auto.info.run_id)
assert got.data.params["C"] == "0.5"
assert "training_score" in got.data.metrics
