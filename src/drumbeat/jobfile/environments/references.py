"""References to environments that are registered by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.model.errors import SpecError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PATH = re.compile(
    r"(?:azureml:)?(?://)?.*?(?:registries/(?P<registry>[^/]+)/.*?)?environments/(?P<name>[^/]+)"
    r"(?:/versions/(?P<version>[^/]+)|/labels/(?P<label>[^/]+))?"
)


@dataclass(frozen=True)
class EnvironmentReference:
    """A reference to an environment by its name."""

    text: str
    """As written."""
    name: str
    version: str = ""
    """"" where none is written."""
    label: str = ""
    """"" where none is written."""
    registry: str = ""
    """Of a cloud, "" = none."""

    @property
    def alias_names(self) -> list[str]:
        """What an alias for it can be called, the most exact first."""
        return [*dict.fromkeys(_names(self))]


def _names(one: EnvironmentReference) -> Iterator[str]:
    written = one.text.removeprefix("azureml:")
    yield one.text
    yield written
    if "/" in written:
        yield re.split(r"/(?:versions|labels)/", one.text)[0]
        yield re.split(r"/(?:versions|labels)/", written)[0]
    tail = f":{one.version}" if one.version else f"@{one.label}" if one.label else ""
    yield one.name + tail
    yield one.name


def parse_reference(text: str) -> EnvironmentReference:
    """Reads `azureml:name:version`, `name@label`, `name`, ARM ids and registries' addresses. Raises SpecError."""
    match = _PATH.fullmatch(text)
    if match and "/" in text:
        return _from_path(text, match)
    short = text.removeprefix("azureml:")
    name, at, label = short.partition("@")
    version = ""
    if not at:
        name, _, version = short.partition(":")
        if short.endswith(":"):
            raise _bad(text)
    return _checked(EnvironmentReference(text, name, version, label), is_labelled=bool(at))


def _from_path(text: str, match: re.Match[str]) -> EnvironmentReference:
    label = match["label"] or ""
    reference = EnvironmentReference(text, match["name"], match["version"] or "", label, match["registry"] or "")
    return _checked(reference, is_labelled=bool(label))


def _checked(one: EnvironmentReference, *, is_labelled: bool = False) -> EnvironmentReference:
    if not NAME.fullmatch(one.name) or (one.version and not VERSION.fullmatch(one.version)):
        raise _bad(one.text)
    if is_labelled and not VERSION.fullmatch(one.label):
        raise _bad(one.text)
    return one


def _bad(text: str) -> SpecError:
    fix = "Write `azureml:name:version`, `azureml:name@latest`, or the environment itself."
    return SpecError(f"{shown(text)} doesn't name an environment", where="environment", fix=fix)
