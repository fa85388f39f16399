"""The supervisor and node tasks: they start processes, hold all their descendants, end them, and find them again.

`supervisor` is the process, `rank_round` the round of ranks in it, `spare_supervisor` its life after its attempt.
`rank_start` and `launcher_process` start processes; `confinement` ends all descendants, by `namespaces` or `cgroups`
where the machine supports them; `shared_memory` cleans up; `round_records` has the files on disk, `listener` the socket
for agents. `warm_pool` has the warm workers, each of which runs `warm_worker_hook`; `node_task_process` runs one
command.
"""
