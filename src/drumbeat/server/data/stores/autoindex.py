"""Parses the pages on which web servers list a folder. Pure."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

_TITLE = re.compile(r"<title>\s*(Index of|Directory listing for)\b", re.IGNORECASE)


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def names_in(page: str, url: str) -> list[str]:
    """Returns the names directly in the folder at `url`, in order, folders with a final `/`. Ignores other links.

    Raises ValueError for a name that isn't UTF-8.
    """
    links = _Links()
    links.feed(page)
    names = (_name(link, urlsplit(url)) for link in links.found)
    return sorted({name for name in names if name})


def is_index(page: str, url: str) -> bool:
    """Whether a page lists the folder at `url`, which may be empty."""
    try:
        return bool(_TITLE.search(page) or names_in(page, url))
    except ValueError:
        return True


def _name(link: str, base: SplitResult) -> str:
    try:
        target = urlsplit(urljoin(base.geturl(), link))
    except ValueError:
        return ""
    if (target.scheme, target.netloc) != (base.scheme, base.netloc) or target.query:
        return ""  # A link to another place, or to this page in another order.
    if not target.path.startswith(base.path):
        return ""
    name = target.path[len(base.path) :]
    inner = name.removesuffix("/")
    if not inner or "/" in inner or inner in (".", ".."):
        return ""
    return unquote(inner, errors="strict") + ("/" if name.endswith("/") else "")
