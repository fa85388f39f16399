"""The principal of a request: who acts, and in which role."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from drumbeat.model.errors import ForbiddenError

MAX_USER_NAME = 100
USER_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.@+-]{{0,{MAX_USER_NAME - 1}}}", re.ASCII)
"""The name of a user: the letters of user names and mail addresses."""


class Role(StrEnum):
    """What a user may do on a server."""

    OWNER = "owner"
    """Everything: also tokens, quotas, the retention rule, and stopping the server."""
    CONTRIBUTOR = "contributor"
    """Submits, changes and deletes."""
    READER = "reader"
    """Sees everything, and changes nothing."""


@dataclass(frozen=True)
class Principal:
    """Who acts, from the request down to the job."""

    user: str
    """The name of the user; "" = unknown, as of jobs that a version without users wrote."""
    role: Role = Role.OWNER

    @property
    def title(self) -> str:
        """The user in a sentence."""
        return self.user or "a user"


UNKNOWN = Principal("")
"""The principal of requests without one."""

ASK = "Ask that user, or an owner of the server."


def require_own(by: Principal, user: str, thing: str, *, own: str = "their own", fix: str = ASK) -> None:
    """Raises ForbiddenError unless a thing is the principal's to change.

    user: whose it is, "" = of no known user. thing: its kind and name. own: what others change, as the sentence ends.
    """
    if by.role is Role.OWNER or by.user == user:
        return
    whose = f"{user}'s" if user else "of no known user"
    what = f"{thing} is {whose}, and {by.user}, a {by.role} here, changes only {own}"
    raise ForbiddenError(what, where=thing, fix=fix if user else "Ask an owner of the server.")
