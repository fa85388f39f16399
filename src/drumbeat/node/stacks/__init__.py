"""What the ranks of a node are doing: their stacks, what the kernel says of them, and whether they are silent."""
