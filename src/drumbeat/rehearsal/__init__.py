"""`drumbeat rehearse`: runs a job unbroken and with faults, and compares the results.

Pure: `metric_comparison.py`, `faults.py`, `fault_costs.py`, `observations.py`, `script_hints.py`. The other modules
call the server, or act on this machine: only on processes of the rehearsal's own jobs, which are identified by pid and
birth.
"""
