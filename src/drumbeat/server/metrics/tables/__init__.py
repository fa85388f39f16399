"""The tables of metrics, in an SQLite file or a schema of PostgreSQL separate from the jobs'."""

from drumbeat.server.metrics.tables.store import SqlMetricStore, make_metric_store

__all__ = ["SqlMetricStore", "make_metric_store"]
