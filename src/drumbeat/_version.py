"""The version of drumbeat: the one place that holds it."""

__version__ = "0.3.0.dev0"
