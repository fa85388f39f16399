"""From YAML text to checked models and back: the loader, expressions, and the wording of every problem."""
