"""What scripts for Azure's SDK make and get: jobs, components, data, models, datastores, and settings."""
