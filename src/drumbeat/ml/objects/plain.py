"""Settings that are taken and have no effect here, and plain objects of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drumbeat.jobfile.builders.bindings import NamedValues


class Attributes:
    """An object whose keywords are its attributes."""

    def __init__(self, **keys: Any) -> None:
        self.__dict__.update(keys)

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in vars(self).items() if value not in (None, {}, []))
        return f"{type(self).__name__}({shown})"


class SystemData(Attributes):
    """When and by whom something was made: `created_at`, `created_by`."""


class ValidationResult(Attributes):
    """Whether an object is valid: `passed`, `error_messages`."""


class SamplingAlgorithm(Attributes):
    """How a sweep samples; its subclasses' names are what `sampling_algorithm` takes."""


class PipelineJobSettings(NamedValues):
    """Settings of a pipeline's steps."""

    def __init__(
        self,
        default_datastore: str | None = None,
        default_compute: str | None = None,
        continue_on_step_failure: bool | None = None,  # noqa: FBT001 - Azure's own signature
        force_rerun: bool | None = None,  # noqa: FBT001
        **keys: Any,
    ) -> None:
        given = {
            "default_datastore": default_datastore,
            "default_compute": default_compute,
            "continue_on_step_failure": continue_on_step_failure,
            "force_rerun": force_rerun,
            **keys,
        }
        super().__init__({key: value for key, value in given.items() if value is not None})


class Ignored(Attributes):
    """A setting of Azure's machines or networks, which has no effect here."""


class AmlComputeSshSettings(dict[str, Any]):
    """Who may log in to a cluster's machines; without effect here."""

    def __init__(self, *, admin_username: str, admin_password: str | None = None, ssh_key_value: str | None = None):
        super().__init__(admin_username=admin_username, admin_password=admin_password, ssh_key_value=ssh_key_value)


class NetworkSettings(dict[str, Any]):
    """The network of a cluster; without effect here."""

    def __init__(self, *, vnet_name: str | None = None, subnet: str | None = None, **keys: Any) -> None:
        super().__init__(vnet_name=vnet_name, subnet=subnet, **keys)


class IdentityConfiguration(dict[str, Any]):
    """The identity of a cluster; without effect here."""

    def __init__(self, *, type: str, user_assigned_identities: list[Any] | None = None, **keys: Any) -> None:
        super().__init__(type=type, user_assigned_identities=user_assigned_identities, **keys)


class AssignedUserConfiguration(Ignored):
    """The user of a compute instance; without effect here."""

    def __init__(self, *, user_tenant_id: str, user_object_id: str) -> None:
        super().__init__(user_tenant_id=user_tenant_id, user_object_id=user_object_id)


class RetrySettings(Ignored):
    """Retries of the mini-batches of a parallel step."""

    def __init__(self, *, timeout: int | str | None = None, max_retries: int | str | None = None, **keys: Any) -> None:
        super().__init__(timeout=timeout, max_retries=max_retries, **keys)


class Workspace(Attributes):
    """A workspace; here there is one for each server. Its keywords are Azure's, and only `name` has a meaning."""

    def __init__(self, *, name: str, tags: Mapping[str, str] | None = None, **keys: Any) -> None:
        super().__init__(name=name, tags=dict(tags or {}), **keys)
