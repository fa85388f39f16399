"""Measurements beside a baseline: `make bench`, `bench-logs`, `bench-api`, `bench-staging`, `bench-sweep`."""
