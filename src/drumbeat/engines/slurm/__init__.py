"""The engine over a Slurm cluster, by Slurm's own commands.

`render` writes the batch script, `client` runs the commands, `engine` has the gangs; `job_states`, `node_states`,
`loss_reasons` and `pending_reasons` translate Slurm's states and reasons.
"""
