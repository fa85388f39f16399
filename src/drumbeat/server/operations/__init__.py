"""Monitoring of a server: metrics for Prometheus, health checks, traces and logs for OpenTelemetry."""
