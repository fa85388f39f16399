"""Persons as the API shows them: their tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from drumbeat.protocol.api.constraints import NO_OTHER_KEYS, limited
from drumbeat.protocol.principal import MAX_PERSON, Role


@dataclass(frozen=True)
class TokenView:
    """The token of a person; the token itself is shown only when it is created."""

    person: str
    role: Role
    created_at: datetime


@dataclass(frozen=True)
class NewToken:
    """A token that was just created. token: what the person sends; it is not kept."""

    person: str
    role: Role
    token: str


@dataclass(frozen=True)
class TokenRequest:
    """A token to create."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    person: str = field(metadata=limited(max_length=MAX_PERSON))
    role: Role = Role.CONTRIBUTOR
