"""The names of `azure.ai.ml.constants`."""

from drumbeat.ml.lazy_names import names_of

__all__, __getattr__, __dir__ = names_of("constants")  # pyright: ignore[reportUnsupportedDunderAll]
