"""Finds the registry that an image comes from, and the credentials for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

DOCKER_HUB = "docker.io"
"""The registry of images whose name doesn't begin with a host."""


def repository(image: str) -> str:
    """Returns an image's registry and path without tag and digest: `ubuntu:24.04` is `docker.io/library/ubuntu`."""
    name = image.partition("@")[0]
    head, slash, rest = name.partition("/")
    is_host = bool(slash) and (head == "localhost" or "." in head or ":" in head)
    path = rest if is_host else name
    path, _, last = path.rpartition("/")
    path = f"{path}/{last.partition(':')[0]}".lstrip("/")
    if is_host:
        return f"{head}/{path}"
    return f"{DOCKER_HUB}/{path if slash else f'library/{path}'}"


def used(images: Iterable[str], addresses: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the registries of the images. known: name to address, maybe with a path: the longest match counts."""
    names: list[str] = []
    for image in images:
        place = f"{repository(image)}/"
        fitting = [name for name, address in addresses.items() if place.startswith(f"{address.rstrip('/')}/")]
        names += sorted(fitting, key=lambda name: len(addresses[name]))[-1:]
    return tuple(dict.fromkeys(names))
