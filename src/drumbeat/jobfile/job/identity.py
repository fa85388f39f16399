"""The identity under which a job reads its data (`identity:`): which kinds Azure has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, cast

from pydantic import BeforeValidator, Field

from drumbeat.jobfile.reading.error_messages import fold
from drumbeat.jobfile.reading.field_types import Filled
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, by_type


class ManagedIdentity(Model):
    """The identity of the compute."""

    type: Annotated[Literal["managed"], AnyCase()] = Field(default="managed", description="Always `managed`.")
    client_id: Filled | None = Field(default=None, description="Client id of the identity.")
    object_id: Filled | None = Field(default=None, description="Object id of the identity.")
    msi_resource_id: Filled | None = Field(default=None, description="Resource id of the identity.")

    def contradictions(self) -> Iterator[Contradiction]:
        given = [key for key in ("client_id", "object_id", "msi_resource_id") if getattr(self, key) is not None]
        if len(given) > 1:
            yield Contradiction((given[1],), f"the identity is named twice, by `{given[0]}` and by `{given[1]}`")


class AmlTokenIdentity(Model):
    """The job's own token."""

    type: Annotated[Literal["aml_token"], AnyCase()] = Field(default="aml_token", description="Always `aml_token`.")


class UserIdentity(Model):
    """The user who submits the job."""

    type: Annotated[Literal["user_identity"], AnyCase()] = Field(
        default="user_identity", description="Always `user_identity`."
    )


def _known_as(value: object) -> object:
    """Azure's own files also write `managed_identity` and `user`."""
    if not isinstance(value, dict):
        return value
    written = cast("dict[str, object]", value)
    other = {"managedidentity": "managed", "user": "user_identity"}.get(fold(str(written.get("type"))))
    return {**written, "type": other} if other else written


IdentityValue = Annotated[
    ManagedIdentity | AmlTokenIdentity | UserIdentity,
    by_type(ManagedIdentity, AmlTokenIdentity, UserIdentity, what="an identity"),
    BeforeValidator(_known_as),
]
