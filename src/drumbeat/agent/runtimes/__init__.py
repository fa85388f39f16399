"""What ranks run in: Python environments, container images, containers."""
