"""The names of `azure.ai.ml.finetuning`."""

from drumbeat.ml.lazy_names import names_of

__all__, __getattr__, __dir__ = names_of("finetuning")  # pyright: ignore[reportUnsupportedDunderAll]
