"""The names of `azure.ai.ml.dsl`."""

from drumbeat.ml.lazy_names import names_of

__all__, __getattr__, __dir__ = names_of("dsl")  # pyright: ignore[reportUnsupportedDunderAll]
