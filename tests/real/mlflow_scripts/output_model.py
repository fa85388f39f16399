"""A rank saves a model in MLflow's form as an output of its job."""

import sys

import mlflow
import numpy as np
from sklearn.linear_model import LogisticRegression

samples, labels = np.arange(40, dtype=float).reshape(20, 2), np.array([0, 1] * 10)
mlflow.sklearn.save_model(LogisticRegression().fit(samples, labels), f"{sys.argv[1]}/net")
