"""The keys that computes on other machines have in common."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from drumbeat.jobfile.compute.compute_keys import ComputeKeys
from drumbeat.jobfile.compute.compute_values import Absolute, Address
from drumbeat.jobfile.reading.field_types import OneLine


class RemoteCompute(ComputeKeys):
    """The keys that computes on other machines have."""

    python: OneLine = Field(default="python3", description="Python interpreter on the nodes, 3.11 or newer.")
    programs: Absolute | None = Field(
        default=None, description="Folder on the nodes that goes first on the ranks' `PATH`, like `/opt/venv/bin`."
    )
    server_address: Address | None = Field(
        default=None,
        description="IP address or name at which the nodes reach the server; by default, the server's address on the "
        "route to them. A name must be known on the nodes, and on the server's machine, where it must stand for "
        "addresses of that machine other than loopback.",
    )

    def path_first(self, own: str) -> str:
        del own
        return self.programs or ""

    def sees(self, place: Path) -> bool:
        del place
        return False
