"""Metrics in SQL, in a database of their own beside the jobs': a file, or a schema of PostgreSQL."""

from drumbeat.server.metrics.tables.store import SqlMetricStore, make_metric_store

__all__ = ["SqlMetricStore", "make_metric_store"]
