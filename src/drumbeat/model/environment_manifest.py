"""The files of an environment that a node has made, as other nodes of its platform take them over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

MAX_FILES = 400_000
"""Maximum number of files of an environment that is handed on."""


@dataclass(frozen=True)
class EnvironmentFile:
    """A file of an environment. path: relative to its folder. sha256: of the content that is handed on.

    rewrite: what a node does before it uses the content, "" = nothing: `text` = it puts its own folder in place of a
    mark; `binary` = it puts its folder in place of the maker's, padded.
    """

    path: str
    size: int
    sha256: str
    is_executable: bool = False
    rewrite: str = ""


@dataclass(frozen=True)
class EnvironmentManifest:
    """All files of an environment. prefix: its folder on the node that made it. links: symbolic links, path to target.
    record: what `made` says of it. folders: relative paths, parents first.
    """

    prefix: str
    files: tuple[EnvironmentFile, ...]
    folders: tuple[str, ...] = ()
    links: dict[str, str] = field(default_factory=dict[str, str])
    record: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def contents(self) -> dict[str, int]:
        """The different contents: SHA-256 to bytes."""
        return {file.sha256: file.size for file in self.files}


@dataclass(frozen=True)
class EnvironmentAnswer:
    """What the server tells a node that needs an environment.

    state: `make` = this node makes it and renews its lease meanwhile; `wait` = another one does; `made` = it is there;
    then digest is the SHA-256 of the manifest, and holder the node of the attempt that has all of it, -1 = none.
    """

    state: str
    by: str = ""
    progress: str = ""
    digest: str = ""
    holder: int = -1


MAKE, WAIT, MADE = "make", "wait", "made"
RENEWAL_S = 2.0
"""How often the node that makes an environment renews its lease."""
LEASE_S = 15.0
"""How long a lease lasts without being renewed."""
