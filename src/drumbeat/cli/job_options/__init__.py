"""The jobs that the options of `run` and `plan` describe, or that `init` finds in a script."""
