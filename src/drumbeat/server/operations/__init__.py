"""What operators need of a server: metrics for Prometheus, health, traces and logs for OpenTelemetry."""
