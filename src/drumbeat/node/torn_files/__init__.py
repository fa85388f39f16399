"""The files that ranks save to their checkpoint folder: a whole one stays when a rank dies while it writes the next."""
