"""Pipeline jobs: components, steps, the graph between them."""
