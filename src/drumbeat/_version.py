"""The version of drumbeat: the one place that holds it."""

__version__ = "0.2.0"
