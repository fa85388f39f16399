"""Which registry an image comes from, and whose credentials it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

DOCKER_HUB = "docker.io"
"""Where an image comes from whose name begins with no host."""


def repository(image: str) -> str:
    """An image's registry and path there, without tag and digest: `ubuntu:24.04` is `docker.io/library/ubuntu`."""
    name = image.partition("@")[0]
    head, slash, rest = name.partition("/")
    is_host = bool(slash) and (head == "localhost" or "." in head or ":" in head)
    path = rest if is_host else name
    path, _, last = path.rpartition("/")
    path = f"{path}/{last.partition(':')[0]}".lstrip("/")
    if is_host:
        return f"{head}/{path}"
    return f"{DOCKER_HUB}/{path if slash else f'library/{path}'}"


def used(images: Iterable[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Those that the images come from. known: name to address, which may go on with a path: the longest one fits."""
    found: list[str] = []
    for image in images:
        place = f"{repository(image)}/"
        fitting = [name for name, address in known.items() if place.startswith(f"{address.rstrip('/')}/")]
        found += sorted(fitting, key=lambda name: len(known[name]))[-1:]
    return tuple(dict.fromkeys(found))
