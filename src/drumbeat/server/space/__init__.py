"""Space: what is kept, what may be deleted, what is pruned."""
