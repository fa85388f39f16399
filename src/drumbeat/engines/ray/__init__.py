"""The engine over a Ray cluster, by the REST API of its dashboard: no Ray is needed where the server runs."""
