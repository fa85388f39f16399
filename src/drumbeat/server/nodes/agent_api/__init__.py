"""The routes that agents call: sync, inputs."""
