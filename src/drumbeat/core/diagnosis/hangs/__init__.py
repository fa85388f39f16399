"""What silent ranks do, and whether it is a hang: pure functions of what the agents of a job's nodes have seen."""
