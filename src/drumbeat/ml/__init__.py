"""Azure's SDK by an import: a script runs here after `azure.ai.ml` in its imports is replaced by `drumbeat.ml`.

No package of Azure's is needed. What drumbeat doesn't have is refused with a sentence when it is imported.
"""

from drumbeat.ml.lazy_names import names_of

__all__, __getattr__, __dir__ = names_of("")  # pyright: ignore[reportUnsupportedDunderAll]
