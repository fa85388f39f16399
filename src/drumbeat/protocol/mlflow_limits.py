"""MLflow's own limits, kept by the server and by the endpoints on nodes: sizes of batches; texts in characters."""

MAX_NAME = 250
MAX_PARAM_VALUE = 6000
MAX_TAG_VALUE = 8000
MAX_METRICS_IN_BATCH = 1000
MAX_PARAMS_IN_BATCH = 100
