"""Reading data for nodes and people: inputs in stores, outputs of jobs, manifests, MLTables."""
