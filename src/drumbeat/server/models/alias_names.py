"""Which names an alias of a model may have: MLflow's rule."""

from __future__ import annotations

import re

MAX_ALIAS = 255

_ALIAS = re.compile(r"[\w\-]+")
_VERSION_ALIAS = re.compile(r"[vV]\d+")


def trouble_with_alias(alias: str) -> str:
    """Returns why an alias can't have this name, "" = it can."""
    if len(alias) > MAX_ALIAS or not _ALIAS.fullmatch(alias):
        return f"Invalid alias name: '{alias[:300]}'. Names have letters, digits, '_' and '-', at most {MAX_ALIAS}."
    if alias.lower() == "latest" or _VERSION_ALIAS.fullmatch(alias):
        return f"'{alias}' alias name is reserved."
    return ""
