"""Paths in addresses: any text, as files may be named; Starlette's own `path` ends at a line break."""

from __future__ import annotations

from starlette.convertors import StringConvertor, register_url_convertor


class AnyPath(StringConvertor):
    """Matches what Starlette's own `path` doesn't: line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("anypath", AnyPath())


def rest(name: str) -> str:
    """A route's last parameter: the whole rest of the address, slashes, line breaks and all."""
    return f"{{{name}:anypath}}"
