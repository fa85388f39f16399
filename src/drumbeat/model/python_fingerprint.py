"""A short fingerprint of a node's Python and packages: nodes whose fingerprints differ form no gang."""

from __future__ import annotations

from dataclasses import dataclass, field

MORE = "…"


@dataclass(frozen=True)
class Fingerprint:
    """python: its version. digest: of it and all distributions. versions: of some of them, by name.

    has_more: there are others.
    """

    python: str
    digest: str
    versions: dict[str, str] = field(default_factory=dict[str, str])
    has_more: bool = False

    def __str__(self) -> str:
        versions = [f"{name}=={one}" for name, one in self.versions.items()]
        return " ".join((self.python, self.digest, *versions, *([MORE] if self.has_more else [])))

    def lacks(self, name: str) -> bool:
        """Whether the distribution is certainly missing."""
        return name not in self.versions and not self.has_more


def read(text: str) -> Fingerprint | None:
    """Returns the fingerprint in `Member.environment`; None = the node reported none."""
    python, _, rest = text.partition(" ")
    digest, _, versions = rest.partition(" ")
    if not digest:
        return None
    words = versions.split()
    pairs = (one.partition("==") for one in words if one != MORE)
    return Fingerprint(python, digest, {name: version for name, _, version in pairs}, has_more=MORE in words)
