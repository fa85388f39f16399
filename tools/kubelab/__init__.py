"""A real Kubernetes control plane on this machine, with virtual nodes: for tests and demos."""
