"""`drumbeat rehearse`: runs a job unbroken and with faults, and compares what came of it.

Pure: `metric_comparison.py`, `faults.py`, `fault_costs.py`, `observations.py`, `script_hints.py`.
The rest asks the server, or acts on this machine: only on processes of the rehearsal's own jobs,
each known by its pid and its birth.
"""
