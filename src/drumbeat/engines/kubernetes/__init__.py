"""The engine over a Kubernetes cluster."""
