"""The files of batch endpoints and their deployments."""
