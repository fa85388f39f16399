"""The activity of a node's ranks: their stacks, their state in the kernel, and whether they are silent."""
