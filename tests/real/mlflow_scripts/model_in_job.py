"""A rank logs a model whole, registers it and loads it again."""

import mlflow
import numpy as np
from checks import IS_NEW
from sklearn.linear_model import LogisticRegression

samples, labels = np.arange(40, dtype=float).reshape(20, 2), np.array([0, 1] * 10)
model = LogisticRegression().fit(samples, labels)
named = {"name": "model"} if IS_NEW else {"artifact_path": "model"}
with mlflow.start_run():
    info = mlflow.sklearn.log_model(model, registered_model_name="logit", **named)
    mlflow.log_table({"a": [1, 2]}, "table.json")
for uri in ("models:/logit/1", info.model_uri):
    assert (mlflow.sklearn.load_model(uri).predict(samples) == model.predict(samples)).all()
if IS_NEW:
    mlflow.log_metric("acc", 0.7, model_id=info.model_id)
    assert [one.value for one in mlflow.get_logged_model(info.model_id).metrics] == [0.7]
