"""Which rank failed first, why, and what to do about it. Pure."""
