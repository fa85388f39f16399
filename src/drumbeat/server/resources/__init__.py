"""Named things with versions and documents: environments, components, registries, aliases."""
