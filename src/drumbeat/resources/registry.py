"""Registries of container images that need credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumbeat.model.api.environments import RegistryView
from drumbeat.resources.kind import Kind, Sentences, StoredResource

if TYPE_CHECKING:
    from drumbeat.jobfile.reading.loader import DocumentKind


def _model() -> DocumentKind:
    from drumbeat.jobfile.environments.registries import REGISTRY as MODEL

    return MODEL


def _view(kept: StoredResource) -> RegistryView:
    document = kept.document
    return RegistryView(
        kept.name,
        str(document["target"]),
        "password" if kept.has_secrets else "none",
        insecure=bool(document.get("insecure")),
        push_builds=bool(document.get("push_builds")),
        description=str(document.get("description") or ""),
    )


def _created(made: RegistryView) -> str:
    how = "by password" if made.credentials != "none" else "without credentials"
    lines = [
        f"registry {made.name} created: {made.target}, {how} (credentials not verified)",
        f"  images whose names begin with {made.target}/ are pulled so from now on",
    ]
    if made.push_builds:
        lines.append("  images of `build:` are built by one node of a job, pushed there, and pulled by all others")
    return "\n".join(lines)


REGISTRY = Kind(
    name="registry",
    noun="registry",
    plural="registries",
    path="registries",
    view_type=RegistryView,
    view=_view,
    model=_model,
    sealed_for=lambda document: f"{document['name']} at {document['target']}",
    sentences=Sentences(
        about="Create and inspect registries: the credentials for pulling images. See docs/containers.md.",
        page="docs/containers.md",
        create="""Create a registry, or replace the one of the same name.

        The file doesn't have to contain the password: `password: env:NAME` reads it from the environment of this
        command, `password: file:PATH` from a file. The server stores it encrypted and sends it only to the nodes of
        jobs that pull an image from this registry.
        """,
        list="List registries.",
        show="Show a registry, with the kind of its credentials but not the credentials themselves.",
        delete="Delete a registry and its credentials. Images on the nodes stay.",
        example="acme",
        create_example="-f acme.yml --set credentials.password=env:PASSWORD",
        columns=lambda one: {
            "registry": one.name,
            "images begin with": one.target,
            "credentials": one.credentials,
            "TLS checked": "no" if one.insecure else "yes",
        },
        details=lambda one: {
            "registry": one.name,
            "images begin with": one.target,
            "credentials": one.credentials,
            "TLS checked": "no" if one.insecure else "yes",
            "built images": "pushed there" if one.push_builds else "",
            "description": one.description,
        },
        empty="no registries; images are pulled as the nodes' own container engines can",
        created=_created,
        deleted="registry {name} deleted; images that nodes have pulled stay there",
    ),
)
