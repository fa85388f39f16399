"""What a user says of a container registry: where it is, and how to get in. The file is Azure's connection's."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from drumbeat.jobfile.data.credentials import Called, Credentials, Secret
from drumbeat.jobfile.reading.error_messages import IN_QUOTES
from drumbeat.jobfile.reading.field_types import Name, Text, complaint
from drumbeat.jobfile.reading.loader import DocumentKind
from drumbeat.jobfile.reading.model import AnyCase, Model

_PATTERN = r"[a-z0-9._-]+(:\d{1,5})?(/[a-z0-9._-]+)*"


def _address(value: object) -> object:
    """`https://ghcr.io/acme/` is `ghcr.io/acme`, as names of images begin."""
    if not isinstance(value, str):
        raise complaint("expected a text", IN_QUOTES)
    text = value.strip().removeprefix("https://").removeprefix("http://").rstrip("/")
    if "@" in text:
        raise complaint("this address has a user or a password in it", "Put them under `credentials`.")
    if not re.fullmatch(_PATTERN, text):
        raise complaint("this isn't what names of images begin with", "Write it like `ghcr.io/acme` or `host:5000`.")
    return text


class RegistryCredentials(Credentials):
    """A user with a password, or with a token in its place."""

    type: Annotated[Literal["username_password"], AnyCase()] = Field(
        default="username_password", description="Always `username_password`."
    )
    username: Called = Field(repr=False, description="User.")
    password: Secret = Field(repr=False, description="The user's password, or a token.")

    @property
    def title(self) -> str:
        return "password"


class Registry(Model):
    """A registry that images are pulled from, and perhaps those that nodes build are pushed to."""

    noun: ClassVar[str] = "the registry"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema", "is_shared"})

    name: Name = Field(description="What it is called here.")
    type: Annotated[Literal["container_registry"], AnyCase()] = Field(
        default="container_registry", description="Always `container_registry`."
    )
    target: Annotated[str, BeforeValidator(_address)] = Field(
        description="What the names of its images begin with: a host, perhaps with a port and a path."
    )
    credentials: RegistryCredentials | None = Field(default=None, repr=False, description="`username` and `password`.")
    insecure: bool = Field(default=False, description="It is spoken to without TLS, or its certificate isn't checked.")
    push_builds: bool = Field(
        default=False,
        description="Images of `build:` are built by one node of a job, pushed here, and pulled by others.",
    )
    description: Text | None = Field(default=None, description="Description of its purpose.")


REGISTRY = DocumentKind("a registry", lambda _document, _places: Registry, "`name:` and `target:`")
