"""Computes: those of the server, and Azure's clusters, which become aliases of one of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from drumbeat.jobfile.compute.amlcompute import AmlCompute
from drumbeat.ml.calls.operation import Operations, pages, unavailable
from drumbeat.ml.objects.computes import Compute, compute_from_view
from drumbeat.ml.objects.plain import Attributes
from drumbeat.ml.poller import LROPoller
from drumbeat.model.errors import NotFoundError

DEFAULT = "local"


class ComputeOperations(Operations):
    """Computes."""

    def begin_create_or_update(self, compute: Any) -> LROPoller[Compute]:
        """Makes a compute. Azure's cluster becomes an alias: jobs that name it run on a compute of the server.

        The cluster's numbers are taken where a compute of this name is here and may be scaled.
        """
        if isinstance(compute, AmlCompute):
            return LROPoller(self._cluster(compute))
        if isinstance(compute, Compute):
            return LROPoller(self._scaled(compute))
        return LROPoller(compute_from_view(self.client.create_compute(compute)))

    def begin_update(self, compute: Any) -> LROPoller[Compute]:
        """Changes how many machines a compute has."""
        return self.begin_create_or_update(compute)

    def begin_attach(self, compute: Any, **keys: Any) -> LROPoller[Compute]:
        """Makes a compute, as `begin_create_or_update`."""
        del keys
        return self.begin_create_or_update(compute)

    def get(self, name: str) -> Compute:
        """Returns a compute, also one that an alias stands for."""
        target = self._aliases().get(name, name)
        return compute_from_view(self.client.compute(target), name)

    def list(self, *, compute_type: str | None = None) -> Iterator[Compute]:
        """Returns the computes, and the aliases of them. compute_type: only those of this type."""
        views = self.client.computes()
        names = {one.name: one for one in views}
        aliases = [(names[target], alias) for alias, target in self._aliases().items() if target in names]
        every = [compute_from_view(view, name) for view, name in [*((one, "") for one in views), *aliases]]
        return pages(one for one in every if compute_type in (None, getattr(one, "type", None)))

    def begin_delete(self, name: str, *, action: str = "Delete") -> LROPoller[None]:
        """Deletes a compute, or the alias of this name."""
        del action
        if name in self._aliases():
            self.client.set_alias("compute", name, None)
        else:
            self.client.delete_compute(name)
        return LROPoller(None)

    def list_nodes(self, name: str) -> Iterator[Attributes]:
        """Returns the machines of a compute: `node_id`, `node_state`, `run_id`."""
        view = self.client.compute(self._aliases().get(name, name))
        holders = {one.machine: one.job for one in view.held}
        return pages(
            Attributes(node_id=one.name, node_state=str(one.state), run_id=holders.get(one.name))
            for one in view.machines
        )

    def begin_start(self, name: str) -> LROPoller[None]:
        """Refuses: machines start when jobs need them."""
        raise _instances(name)

    def begin_stop(self, name: str) -> LROPoller[None]:
        """Refuses: machines stop when no job needs them."""
        raise _instances(name)

    def begin_restart(self, name: str) -> LROPoller[None]:
        """Refuses: drumbeat restarts no machines."""
        raise _instances(name)

    def list_sizes(self, *, location: str | None = None, compute_type: str | None = None) -> Iterator[Attributes]:
        """Refuses: the machines are the ones that you own."""
        raise unavailable("drumbeat offers no sizes of machines", "See your own: drumbeat compute list")

    def list_usage(self, *, location: str | None = None) -> Iterator[Attributes]:
        """Refuses: there are no quotas of a cloud."""
        raise unavailable("drumbeat has no quotas of a cloud", "See what is used: drumbeat top")

    def enable_sso(self, *, name: str, enable_sso: bool = True) -> None:
        """Refuses: there are no compute instances."""
        raise _instances(name)

    def _aliases(self) -> dict[str, str]:
        return {one.name: one.target for one in self.client.aliases() if one.kind == "compute"}

    def _cluster(self, compute: AmlCompute) -> Compute:
        try:
            made = self.get(compute.name)
        except NotFoundError:
            self.client.set_alias("compute", compute.name, DEFAULT)
            notice = f"drumbeat makes no machines in Azure: jobs that name {compute.name} run on {DEFAULT}"
            print(f"{notice}. Another compute: drumbeat alias set compute {compute.name} NAME", file=sys.stderr)
            made = self.get(compute.name)
        own = compute.model_dump(exclude_unset=True)
        made.__dict__.update({key: value for key, value in own.items() if key not in ("identity", "network_settings")})
        return made

    def _scaled(self, compute: Compute) -> Compute:
        wanted = {
            key: getattr(compute, key, None)
            for key in ("min_instances", "max_instances", "idle_time_before_scale_down")
        }
        target = self._aliases().get(compute.name, compute.name)
        return compute_from_view(self.client.scale_compute(target, **wanted), compute.name)


def _instances(name: str) -> Exception:
    what = f"drumbeat doesn't switch {name} on or off: machines come and go with the jobs that need them"
    return unavailable(what, "Set how many stay: drumbeat compute scale NAME --min N")
