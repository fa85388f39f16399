"""Ids of Azure Resource Manager, and the names in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from drumbeat.model.errors import RefusedError

PROVIDER = "Microsoft.MachineLearningServices"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.~+@-]{0,254}", re.ASCII)
ANONYMOUS = "CliV2AnonymousEnvironment"
"""The name of environments that are written in a job."""
ANONYMOUS_COMPONENT = "azureml_anonymous"
"""The name of components that are written in a pipeline."""
_VERSION = re.compile(
    r"(?:azureml:)?/.*/(?P<kind>\w+)/(?P<name>[^/]+)/(?:versions/(?P<version>[^/]+)|labels/(?P<label>[^/]+))/?",
    re.ASCII | re.DOTALL,
)
_COMPUTE = re.compile(r"(?:azureml:)?/.*/(?:computes|virtualclusters)/([^/]+)/?", re.ASCII | re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Workspace:
    """The workspace of a request: any names are taken, and all mean this server."""

    subscription: str
    group: str
    name: str

    @property
    def path(self) -> str:
        """The id, which is also the path of the API."""
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{self.group}/providers/{PROVIDER}"
            f"/workspaces/{self.name}"
        )

    def asset(self, kind: str, name: str, version: str) -> str:
        """Returns the id of a version. kind: such as `environments`."""
        return f"{self.path}/{kind}/{name}/versions/{version}"


@dataclass(frozen=True)
class AssetId:
    """An id of a version, or of what a label means. kind: such as `environments`."""

    kind: str
    name: str
    version: str = ""
    label: str = ""

    @property
    def reference(self) -> str:
        """The version as job files name it."""
        return f"azureml:{self.name}:{self.version}" if self.version else f"azureml:{self.name}@{self.label}"


def asset_id(text: str) -> AssetId | None:
    """Parses an id of a version; None = it is another text, such as `azureml:name:1`."""
    match = _VERSION.fullmatch(text)
    if match is None or "/registries/" in text:
        return None
    return AssetId(match["kind"], plain_name(match["name"]), match["version"] or "", match["label"] or "")


def plain_name(name: str) -> str:
    """Returns a name without the prefix that some clients leave before it."""
    return name.removeprefix("azureml:")


def compute_name(text: str | None) -> str | None:
    """Returns the compute that an id or a name means; None = none."""
    if not text:
        return None
    match = _COMPUTE.fullmatch(text)
    return match[1] if match else plain_name(text)


def require_name(name: str, what: str) -> str:
    """Returns a name without `azureml:`. Raises RefusedError unless it may be one of Azure's."""
    plain = plain_name(name)
    if not NAME.fullmatch(plain):
        fix = "Use letters, digits, `-`, `_` and `.`, at most 255; a letter, a digit or `_` first."
        raise RefusedError(f"{name[:80]!a} can't be the name of {what}", fix=fix)
    return plain


def without_nulls(table: dict[str, Any]) -> dict[str, Any]:
    """Returns the entries that have a value."""
    return {key: value for key, value in table.items() if value is not None}
