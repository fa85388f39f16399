"""MLflow's REST protocol over the store of metrics, for its unmodified clients of versions 2 and 3."""
