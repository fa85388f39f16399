"""The real control room, store contract and `decide`, with agents, engine and clock that are played: seeded faults.

A *schedule* is a list of actions, drawn from a seed. Every action means something in every situation, or nothing; so
any part of a schedule is a schedule too, and a failing one can be shrunk. After each action the invariants are
checked, and at the end the faults cease and everything has to come to rest.

    python -m tests.support.simulation --seeds 10000
    python -m tests.support.simulation --seeds 10000 --servers 2     two servers that share the store
    python -m tests.support.simulation --seeds 100 --store sqlite    in a file, or the URL of an empty database
    python -m tests.support.simulation --seeds 1000 --hangs          with looks at silent ranks
    python -m tests.support.simulation --seeds 1000 --conditions     with values that meet conditions
    python -m tests.support.simulation --seed 4711                   one schedule again, its steps printed

`make check` runs 500 schedules, `make test` 1,000, `make thorough` 10,000. More of them, through
the tests (which then take as long as they take: no test is given up after 300 s):

    DRUMBEAT_SIMULATIONS=1000000 python -m pytest -n 16 tests/unit/simulation

A server that is stopped in the middle of something (SIGSTOP, a long collection) is played by letting the next actions
happen inside the failpoint that it has come to: it goes on with what it knew, and the others have moved on.

- world: the servers that can be killed and stopped, the clock; what is asked of them
- engine: the one machine, as an engine
- nodes: an agent with its ranks, as a state machine
- warm_pools, supervisors: nodes with real supervisors, whose warm workers go from job to job
- backing: the store that the servers share, and what can be seen in it
- job_actions, node_actions, server_actions, warm_pool_actions: what can happen
- hangs: what a look at silent ranks finds, and what must follow
- conditions: what nodes see of those of their job, and what must follow
- schedules: the actions of a seed
- invariants: what must hold
- waits: what a job must say of why it is where it is
- shrink: running a schedule, and the shortest one that still fails
"""
