"""Whether the nodes of a gang have the same Python, packages and image: ranks that differ fail late, or silently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drumbeat.protocol import fingerprint
from drumbeat.protocol.fingerprint import Fingerprint
from drumbeat.protocol.roster import Member

MOST_NAMED = 5
"""Packages that are named in one sentence."""


def difference(members: Sequence[Member]) -> str:
    """What the first node that differs from node 0 has otherwise, as a sentence; "" = they are alike.

    A node that has told nothing has no Python that anybody could ask for, and is compared with none.
    """
    for member in members[1:]:
        if member.layers != members[0].layers:
            told = ", ".join(f"{brief(one.image)} on {_place(one)}" for one in (members[0], member))
            return f"the nodes have different images of the same name: {told}"
    told = [(member, found) for member in members if (found := fingerprint.read(member.environment))]
    for member, found in told[1:]:
        first, expected = told[0]
        if found.digest != expected.digest:
            here, there = _place(first), _place(member)
            return f"the nodes have different environments: {_differing(expected, found, here, there)}"
    return ""


def say_image(members: Sequence[Member]) -> str:
    """Which image the containers are of, on which nodes; "" = there are none."""
    found: dict[str, list[int]] = {}
    for member in members:
        if member.image:
            found.setdefault(brief(member.image), []).append(member.node)
    if len(found) < 2:
        return next(iter(found), "")
    told = [f"{image} on {'node' if len(nodes) == 1 else 'nodes'} {_said(nodes)}" for image, nodes in found.items()]
    more = f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
    return ", ".join(told[:MOST_NAMED]) + more


def _said(nodes: Sequence[int]) -> str:
    shown = ", ".join(str(node) for node in nodes[:MOST_NAMED])
    return f"{shown} …" if len(nodes) > MOST_NAMED else shown


def brief(digest: str) -> str:
    """The beginning of a digest, which is enough for people: `sha256:0123456789ab`."""
    return digest[:19]


def _differing(one: Fingerprint, other: Fingerprint, here: str, there: str) -> str:
    if one.python != other.python:
        return f"Python {one.python} on {here}, {other.python} on {there}"
    named = [name for name in {**one.versions, **other.versions} if _differ(name, one, other)]
    if not named:
        return f"{here} and {there} don't have the same packages (Python {one.python} on both)"
    told = [f"{name} {_has(one.versions, name)} on {here}, {_has(other.versions, name)} on {there}" for name in named]
    more = f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return "; ".join(told[:MOST_NAMED]) + more


def _differ(name: str, one: Fingerprint, other: Fingerprint) -> bool:
    """As far as it was told: a node with many packages names only some of them."""
    if name in one.versions and name in other.versions:
        return one.versions[name] != other.versions[name]
    return one.lacks(name) or other.lacks(name)


def _has(versions: Mapping[str, str], name: str) -> str:
    return versions.get(name, "not")


def _place(member: Member) -> str:
    return f"node {member.node} ({member.host})"
