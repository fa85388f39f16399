"""The merge of the user's own keys into a pod: pure. Everything else in a pod, tolerations
included, is in `render.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

Json = dict[str, Any]
_NAMES = ("name", "mountPath")
"""Keys that identify the entries of a list, as in Kubernetes' own strategic merge."""


def merged(pod: Mapping[str, Any], own: Mapping[str, Any]) -> Json:
    """The pod with the user's keys merged over it: mappings merge, lists of named entries merge by name, other lists
    are extended.

    A key with the value null is removed.
    """
    result: Json = dict(pod)
    for key, value in own.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], cast("Mapping[str, Any]", value))
        elif isinstance(value, list) and isinstance(result.get(key), list):
            result[key] = _extended(result[key], cast("list[Any]", value))
        else:
            result[key] = value
    return result


def _extended(entries: Sequence[Any], own: Sequence[Any]) -> list[Any]:
    result = list(entries)
    for one in own:
        place = next((n for n, each in enumerate(result) if _is_same(each, one)), None)
        if place is None:
            result.append(one)
        else:
            result[place] = merged(result[place], one)
    return result


def _is_same(one: object, other: object) -> bool:
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return False
    first, second = cast("Mapping[str, Any]", one), cast("Mapping[str, Any]", other)
    key = next((name for name in reversed(_NAMES) if name in first or name in second), "")
    return bool(key) and key in first and first[key] == second.get(key)
