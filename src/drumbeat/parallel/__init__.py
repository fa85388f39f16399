"""The runner of parallel steps and batch deployments: a script's `run()` over the mini-batches of an input.

It runs in the Python of the job's environment, as `python -m drumbeat.parallel`, one rank for each node, and needs only
the standard library. The runner of node 0 also deals: it divides the input, hands out mini-batches, tries failed ones
again, and writes the results ([why](docs/decisions/0062-one-runner-deals-mini-batches.md)).
"""
