"""The decisions, as pure functions: no sockets, no files, no clock but the one that is passed in.

`lifecycle` has the whole life of a job: its states, `decide(job, event, now)`, what follows a failure, what an
agent should be doing now. `scheduling` says who starts next, where, and why the others wait; `planning` goes from a
job file to the plan that the agents carry out, `diagnosis` says which rank failed first and why, `sweeps` and
`pipelines` choose what parent jobs submit. The modules here are about more than one of these:

- reason_table: what each reason of a state means for retries and advice
- ledger_times: which class of time each second of a job is in
- prediction, measured_steps: how long a step would take on other nodes, and what it takes
- curve_thinning: which points of a metric stand for all of them
- deletion_rules: what may be deleted to free space
"""
