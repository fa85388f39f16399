"""The names of `azure.ai.ml.parallel`."""

from drumbeat.ml.lazy_names import names_of

__all__, __getattr__, __dir__ = names_of("parallel")  # pyright: ignore[reportUnsupportedDunderAll]
