"""The engine over hosts by ssh."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from drumbeat.engines.own_address import route_to
from drumbeat.engines.remote_engine import RemoteEngine
from drumbeat.engines.remote_host import Host
from drumbeat.engines.ssh.ssh_host import SshReach
from drumbeat.model.errors import UnreachableError


class SshEngine(RemoteEngine):
    """Hosts by ssh. server_address: this machine's address for them, "" = by the routes to them."""

    keeps_spares = True

    def __init__(self, hosts: Sequence[Host], server_address: str = "") -> None:
        self._hosts = hosts
        self._server_address = server_address
        super().__init__("ssh", hosts, self._towards)

    def _towards(self) -> list[str]:
        if self._server_address:
            return [self._server_address]
        reaches = [host.reach for host in self._hosts if isinstance(host.reach, SshReach)]
        places = [reach.destination() for reach in reaches]
        addresses = sorted({own for place in places if (own := route_to(place.host, place.port))})
        beyond = [own for own in addresses if not ipaddress.ip_address(own).is_loopback]
        if not addresses:
            what = "there is no route to any host of this compute"
            raise UnreachableError(what, fix="Set `server_address` in its file.")
        return beyond or addresses

    def close(self) -> None:
        """Ends the open ssh connections."""
        super().close()
        for host in self._hosts:
            if isinstance(host.reach, SshReach):
                host.reach.hang_up()
