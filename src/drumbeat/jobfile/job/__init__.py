"""The command job: its models, and the Python objects that build one.

`job.py` has the keys at the top; below them are `distribution.py`, `resources_and_limits.py`, `services.py` and
`identity.py`. The `drumbeat:` table is in `extensions.py`, its waits and retries in `timeouts_and_retries.py`.
"""
