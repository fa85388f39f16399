"""Finds nodes of a gang whose Python, packages or image differ: their ranks would fail late, or silently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drumbeat.model import python_fingerprint
from drumbeat.model.plurals import list_first
from drumbeat.model.python_fingerprint import Fingerprint
from drumbeat.model.roster import Member

MAX_NAMED = 5
"""After this many images, nodes or packages, a sentence says how many more there are."""


def difference(members: Sequence[Member]) -> str:
    """Returns a sentence on the first node that differs from node 0, and in what; "" = the nodes are alike.

    A node that reported no fingerprint has no Python, and is compared with no other.
    """
    for member in members[1:]:
        if member.layers != members[0].layers:
            images = ", ".join(f"{brief(one.image)} on {_place(one)}" for one in (members[0], member))
            return f"the nodes have different images of the same name: {images}"
    reported = [(member, own) for member in members if (own := python_fingerprint.read(member.environment))]
    for member, actual in reported[1:]:
        first, expected = reported[0]
        if actual.digest != expected.digest:
            places = _place(first), _place(member)
            return f"the nodes have different environments: {_differences(expected, actual, *places)}"
    return ""


def format_image(members: Sequence[Member]) -> str:
    """Returns the images that the containers run, with their nodes where they differ; "" = no containers."""
    nodes_by_image: dict[str, list[int]] = {}
    for member in members:
        if member.image:
            nodes_by_image.setdefault(brief(member.image), []).append(member.node)
    if len(nodes_by_image) < 2:
        return next(iter(nodes_by_image), "")
    images = [
        f"{image} on {'node' if len(nodes) == 1 else 'nodes'} {_numbers(nodes)}"
        for image, nodes in nodes_by_image.items()
    ]
    return list_first(images, MAX_NAMED)


def _numbers(nodes: Sequence[int]) -> str:
    shown = ", ".join(str(node) for node in nodes[:MAX_NAMED])
    return f"{shown} …" if len(nodes) > MAX_NAMED else shown


def brief(digest: str) -> str:
    """Returns the beginning of a digest for messages: `sha256:0123456789ab`."""
    return digest[:19]


def _differences(one: Fingerprint, other: Fingerprint, place: str, other_place: str) -> str:
    if one.python != other.python:
        return f"Python {one.python} on {place}, {other.python} on {other_place}"
    names = [name for name in {**one.versions, **other.versions} if _differ(name, one, other)]
    if not names:
        return f"{place} and {other_place} don't have the same packages (Python {one.python} on both)"
    packages = [
        f"{name} {_version(one.versions, name)} on {place}, {_version(other.versions, name)} on {other_place}"
        for name in names
    ]
    return list_first(packages, MAX_NAMED, "; ")


def _differ(name: str, one: Fingerprint, other: Fingerprint) -> bool:
    """Whether a package is known to differ: a node with many packages reports only some of them."""
    if name in one.versions and name in other.versions:
        return one.versions[name] != other.versions[name]
    return one.lacks(name) or other.lacks(name)


def _version(versions: Mapping[str, str], name: str) -> str:
    return versions.get(name, "not")


def _place(member: Member) -> str:
    return f"node {member.node} ({member.host})"
