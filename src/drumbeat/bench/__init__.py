"""What `drumbeat bench` measures: its cases as jobs, their measurements, and the report of them.

Pure but for `results` (a file), `machine_load` (/proc) and `scaling_chart` (a plotting library). The command
submits the jobs.
"""
