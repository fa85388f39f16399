"""Path parameters for file names with any characters; Starlette's own `path` ends at a line break."""

from __future__ import annotations

from starlette.convertors import StringConvertor, register_url_convertor


class AnyPath(StringConvertor):
    """Matches any text, unlike Starlette's `path` also line breaks."""

    regex = r"[\s\S]*"


register_url_convertor("anypath", AnyPath())


def rest(name: str) -> str:
    """Returns a route's last parameter for the rest of the path, including slashes and line breaks."""
    return f"{{{name}:anypath}}"
