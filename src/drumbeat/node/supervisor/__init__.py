"""Starts processes, holds on to all that comes of them, ends it, and finds it again: the supervisor, and node tasks.

`supervisor` is the process, `rank_round` the round of ranks in it, `spare_supervisor` what becomes of it after its
attempt. `rank_start` and `launcher_process` start processes; `confinement` ends all that came of them, by `namespaces`
or `cgroups` where the machine has those; `shared_memory` clears up; `round_records` is what is on disk, `listener`
where an agent meets its supervisor. `warm_pool` has the warm workers, each of which runs `warm_worker_hook`;
`node_task_process` runs one command.
"""
