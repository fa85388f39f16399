"""The calls of `Client` about computes and aliases of a cloud's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drumbeat.client import job_upload
from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.jobfile.compute.compute_keys import SCALE_KEYS
from drumbeat.model.api.computes import AliasView, ComputeView
from drumbeat.model.api.use import Price
from drumbeat.model.wire import to_wire

if TYPE_CHECKING:
    from drumbeat.client.job_upload import GivenCompute


class ComputeCalls:
    """A part of `Client`."""

    connection: Connection

    def aliases(self) -> list[AliasView]:
        """Returns the aliases of a cloud's names."""
        return views(AliasView, self.connection.call("GET", "/aliases"))

    def set_alias(self, kind: str, name: str, target: str | None) -> None:
        """Sets an alias, or removes it (None). kind: `compute`, `environment` or `instance_type`."""
        path = f"/aliases/{part(kind)}/{part(name)}"
        if target is None:
            self.connection.call("DELETE", path)
        else:
            self.connection.call("PUT", path, json={"target": target})

    def computes(self) -> list[ComputeView]:
        """Returns the computes: their machines, held slots and waiting jobs."""
        return views(ComputeView, self.connection.call("GET", "/computes"))

    def compute(self, name: str) -> ComputeView:
        """Returns one compute. Raises NotFoundError."""
        return view(ComputeView, self.connection.call("GET", f"/computes/{part(name)}"))

    def create_compute(self, compute: GivenCompute, *, sets: Sequence[str] = ()) -> ComputeView:
        """Creates or replaces a compute: the path of a file, or a compute made in Python. Idempotent.

        sets: `key=value`, changed in the file before it is read. Raises SpecError; ConflictError when jobs use another
        of its name; RefusedError, EngineError when it can't be made.
        """
        document, source = job_upload.described(compute, sets)
        body = {"document": document, "source": source}
        return view(ComputeView, self.connection.call("POST", "/computes", json=body))

    def price(self, name: str) -> Price:
        """Returns what an hour of a compute's GPUs and slots costs; zeros = no price was set. Raises NotFoundError."""
        return view(Price, self.connection.call("GET", f"/computes/{part(name)}/price"))

    def set_price(self, name: str, price: Price) -> Price:
        """Sets what an hour of a compute's GPUs and slots costs; zeros remove it. Raises NotFoundError, SpecError."""
        return view(Price, self.connection.call("PUT", f"/computes/{part(name)}/price", json=to_wire(price)))

    def scale_compute(
        self,
        name: str,
        *,
        min_instances: int | None = None,
        max_instances: int | None = None,
        idle_time_before_scale_down: float | None = None,
    ) -> ComputeView:
        """Changes how many machines a compute has, also while jobs use it; what isn't given stays as it is.

        Raises NotFoundError, SpecError; RefusedError where the number of machines is fixed.
        """
        numbers = (min_instances, max_instances, idle_time_before_scale_down)
        body = {key: number for key, number in zip(SCALE_KEYS, numbers, strict=True) if number is not None}
        return view(ComputeView, self.connection.call("POST", f"/computes/{part(name)}/scale", json=body))

    def delete_compute(self, name: str) -> None:
        """Deletes a compute. Raises NotFoundError; ConflictError while jobs use it."""
        self.connection.call("DELETE", f"/computes/{part(name)}")
