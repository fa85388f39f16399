"""What `drumbeat bench` measures: its cases as jobs, their measurements, and the report.

All modules are pure except `results` (a file), `machine_load` (/proc) and `scaling_chart` (a plotting library). The
command line submits the jobs.
"""
