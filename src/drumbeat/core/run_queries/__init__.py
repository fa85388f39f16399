"""The query language of runs: its fields, filters, orders and groups. Pure; the server reads the values."""
