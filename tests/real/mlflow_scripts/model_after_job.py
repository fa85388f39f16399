"""A model that a job registered is loaded from outside of jobs."""

import mlflow
import numpy as np

assert set(mlflow.sklearn.load_model("models:/logit/1").predict(np.zeros((4, 2)))) <= {0, 1}
