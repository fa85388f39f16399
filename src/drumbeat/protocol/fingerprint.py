"""What a node's Python is made of, short enough to be told: two that differ are no gang."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fingerprint:
    """python: its version. digest: of it and all distributions. versions: of some of them, by name."""

    python: str
    digest: str
    versions: dict[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return " ".join((self.python, self.digest, *(f"{name}=={one}" for name, one in self.versions.items())))


def read(text: str) -> Fingerprint | None:
    """The one in `Member.environment`; None = the node has told none."""
    python, _, rest = text.partition(" ")
    digest, _, versions = rest.partition(" ")
    if not digest:
        return None
    told = (one.partition("==") for one in versions.split())
    return Fingerprint(python, digest, {name: version for name, _, version in told})
