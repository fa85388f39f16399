"""Keras on PyTorch with MLflow's autolog."""

import keras
import mlflow
import numpy as np

keras.utils.set_random_seed(0)
mlflow.set_experiment("keras")
mlflow.keras.autolog(log_models=False)
samples = np.random.default_rng(0).random((64, 2)).astype("float32")
labels = samples.sum(axis=1, keepdims=True)
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.05), loss="mse")
with mlflow.start_run() as run:
    model.fit(samples, labels, epochs=3, batch_size=16, verbose=0)

found = mlflow.get_run(run.info.run_id)
history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
assert len(history) >= 3, found.data
assert history[-1].value < history[0].value
assert found.data.params["batch_size"] == "16", found.data.params
assert [one.path for one in mlflow.MlflowClient().list_artifacts(run.info.run_id)] == ["model_summary.txt"]
