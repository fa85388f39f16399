"""Users: tokens, roles, quotas, whose job it is."""
