"""Things with names that jobs use: data assets, datastores, environments, registries."""
