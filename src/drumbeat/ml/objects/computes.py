"""Computes as scripts see them."""

from __future__ import annotations

from typing import Any

from drumbeat.ml.objects.plain import Attributes
from drumbeat.model.api.computes import ComputeView


class Compute(Attributes):
    """A compute: `name`, `type`, `size`, `min_instances`, `max_instances`, `provisioning_state`."""

    def __init__(
        self,
        name: str,
        location: str | None = None,
        description: str | None = None,
        resource_id: str | None = None,
        tags: dict[str, str] | None = None,
        **keys: Any,
    ) -> None:
        super().__init__(name=name, location=location, description=description, tags=dict(tags or {}), **keys)
        self.resource_id = resource_id

    name: str

    @property
    def id(self) -> str:
        """Its name as jobs write it."""
        return f"azureml:{self.name}"


def compute_from_view(view: ComputeView, name: str = "") -> Compute:
    """Returns a compute of the server. name: an alias by which it was asked for."""
    machines = len(view.machines)
    scale = view.scale
    return Compute(
        name or view.name,
        type=view.engine,
        size=view.spec.get("size"),
        min_instances=scale.min_instances if scale else machines,
        max_instances=scale.max_instances if scale else machines,
        idle_time_before_scale_down=scale.idle_time_s if scale else None,
        tier=str(scale.tier) if scale else "dedicated",
        provisioning_state="Failed" if view.trouble else "Succeeded",
        provisioning_errors=view.trouble or None,
        state="Running",
    )
