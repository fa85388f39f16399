"""The names of `azure.ai.ml.automl`."""

from drumbeat.ml.lazy_names import names_of

__all__, __getattr__, __dir__ = names_of("automl")  # pyright: ignore[reportUnsupportedDunderAll]
