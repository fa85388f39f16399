"""The names of `azure.ai.ml.data_transfer`."""

from drumbeat.ml.lazy_names import names_of

__all__, __getattr__, __dir__ = names_of("data_transfer")  # pyright: ignore[reportUnsupportedDunderAll]
