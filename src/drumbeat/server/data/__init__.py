"""Data: datastores, registered versions, the inputs of jobs."""
