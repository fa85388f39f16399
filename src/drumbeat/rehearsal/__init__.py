"""`drumbeat rehearse`: runs a job unbroken and with faults, and compares what came of it.

Pure: `series.py`, `faults.py`, `costs.py`, `observations.py`, `script_hints.py`. The rest asks the server, or acts on
this machine: only on processes of the rehearsal's own jobs, each known by its pid and its birth.
"""
