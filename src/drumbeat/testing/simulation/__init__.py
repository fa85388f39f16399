"""The real control room, store contract and `decide`, with agents, engine and clock that are played: seeded faults.

A *schedule* is a list of actions, drawn from a seed. Every action means something in every situation, or nothing; so
any part of a schedule is a schedule too, and a failing one can be shrunk. After each action the invariants are
checked, and at the end the faults cease and everything has to come to rest.

    python -m drumbeat.testing.simulation --seeds 10000
    python -m drumbeat.testing.simulation --seed 4711          one schedule again, its steps printed

- world: the server that can be killed, the machine, the clock
- nodes: an agent with its ranks, as a state machine
- actions: what can happen
- invariants: what must hold
- shrink: the shortest schedule that still fails
"""
