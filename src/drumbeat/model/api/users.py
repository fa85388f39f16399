"""Users as the API shows them: their tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from drumbeat.model.api.constraints import NO_OTHER_KEYS, limited
from drumbeat.model.principal import MAX_USER_NAME, Role


@dataclass(frozen=True)
class TokenView:
    """The token of a user; the token itself is shown only when it is created.

    kind: `token` = an owner created it, `login` = `drumbeat login`, `page` = a browser that signed in.
    expires_at: null = never. used_at: its last use, within five minutes; null = never. label: the machine or browser.
    """

    person: str
    role: Role
    created_at: datetime
    id: str = ""
    kind: str = "token"
    expires_at: datetime | None = None
    used_at: datetime | None = None
    label: str = ""


@dataclass(frozen=True)
class NewToken:
    """A token that was just created. token: what the user sends; it is not kept. link: opens the web page once."""

    person: str
    role: Role
    token: str
    expires_at: datetime | None = None
    link: str = ""
    link_expires_s: float = 0.0


LIMIT = "The most at a time, on all computes together; null = no limit."
WAITING = "Jobs that may wait at a time; trials and steps don't count; null = no limit."


@dataclass(frozen=True)
class QuotaLimits:
    """The limits of a quota."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    slots: int | None = field(default=None, metadata=limited(f"CPU slots. {LIMIT}"))
    gpus: int | None = field(default=None, metadata=limited(f"GPUs. {LIMIT}"))
    waiting: int | None = field(default=None, metadata=limited(WAITING))


@dataclass(frozen=True)
class QuotaView:
    """A quota. kind: `person` or `experiment`. name: `*` = each one that has no quota of its own."""

    kind: str
    name: str
    slots: int | None = None
    gpus: int | None = None
    waiting: int | None = None


@dataclass(frozen=True)
class UseView:
    """What a user or an experiment uses now.

    recent_use: slot-hours that count against a user in fair share; a GPU counts as 8 slots.
    """

    kind: str
    name: str
    slots: int
    gpus: int
    waiting: int
    recent_use: float


@dataclass(frozen=True)
class UsesView:
    """What everybody uses. half_life_s: after so long, past use counts half."""

    half_life_s: float
    uses: tuple[UseView, ...]


@dataclass(frozen=True)
class HalfLife:
    """After how many seconds past use counts half."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    half_life_s: float


@dataclass(frozen=True)
class TokenRequest:
    """A token to create."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    person: str = field(metadata=limited(max_length=MAX_USER_NAME))
    role: Role = Role.CONTRIBUTOR
    expires_s: float | None = field(default=None, metadata=limited("Seconds until it expires; null = never."))


@dataclass(frozen=True)
class RoleRequest:
    """The role that a user gets."""

    __pydantic_config__: ClassVar[dict[str, Any]] = NO_OTHER_KEYS

    role: Role


@dataclass(frozen=True)
class AuditLine:
    """A line of the audit log: who changed what, or tried to. of: the user whose it was, "" = the own, or shared."""

    at: datetime
    who: str
    role: str
    method: str
    path: str
    status: int
    of: str = ""
