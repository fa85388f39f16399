"""MLflow's REST API over the store of metrics, for unmodified clients of versions 2 and 3."""
