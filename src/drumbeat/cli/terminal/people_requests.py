"""The part of the seam to the server that is about persons."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from drumbeat.protocol.api.people import NewToken, QuotaView, TokenView, UsesView


class PeopleServer(Protocol):
    """The calls of `drumbeat.Client` about persons that the terminal uses."""

    def tokens(self) -> list[TokenView]:
        """The persons who have tokens, with their roles."""
        ...

    def create_token(self, person: str, role: str = "contributor") -> NewToken:
        """Creates a person's token. Raises SpecError, ConflictError, ForbiddenError."""
        ...

    def remove_token(self, person: str) -> None:
        """Removes a person's token. Raises NotFoundError, ForbiddenError."""
        ...

    def quotas(self) -> list[QuotaView]:
        """Every quota, by kind and name."""
        ...

    def uses(self) -> UsesView:
        """What persons and experiments use now, and what counts against persons in fair share."""
        ...

    def set_quota(
        self, kind: str, name: str, *, slots: int | None = None, gpus: int | None = None, waiting: int | None = None
    ) -> QuotaView:
        """Sets the limits of a person or an experiment. Raises SpecError, ForbiddenError."""
        ...

    def remove_quota(self, kind: str, name: str) -> None:
        """Removes a quota. Raises NotFoundError, ForbiddenError."""
        ...

    def set_half_life(self, half_life: timedelta) -> None:
        """Sets after how long past use counts half. Raises RefusedError, ForbiddenError."""
        ...
