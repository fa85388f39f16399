"""The scoring server: loads a scoring script or an MLflow model and answers requests by Azure's contract.

It runs in the Python of the job's environment, as `python -m drumbeat.scoring`, and needs only the standard library
and drumbeat's `model`. It listens at a port, or dials the router and answers what comes by these connections.
"""
