"""Finds the network interface between the ranks by the kernel's route to rank 0, not by name."""

from __future__ import annotations

import fcntl
import socket
import struct

from drumbeat.train.rank_identity import RankIdentity

NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
"""The variables with the interface for Gloo, NCCL and TensorPipe."""
_ASK_ADDRESS = 0x8915  # SIOCGIFADDR


def interface_variables(identity: RankIdentity) -> dict[str, str]:
    """Returns the variables for ranks on several hosts; none on one host, or if the route is unknown.

    Without them, Gloo uses the interface of the host's own name, which is loopback on many systems.
    """
    if identity.world_size in (1, identity.local_world_size) or not identity.master_addr:
        return {}
    interface = interface_to(identity.master_addr)
    return dict.fromkeys(NAMES, interface) if interface not in ("", "lo") else {}


def interface_to(host: str) -> str:
    """Returns the interface by which this host reaches another one, or itself; "" = unknown, as with IPv6."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # Nothing is sent: the kernel only looks up the route.
            own = probe.getsockname()[0]
            return next((name for _, name in socket.if_nameindex() if _address(probe, name) == own), "")
    except OSError:
        return ""


def _address(probe: socket.socket, interface: str) -> str:
    try:
        answer = fcntl.ioctl(probe.fileno(), _ASK_ADDRESS, struct.pack("256s", interface.encode()[:15]))
    except OSError:
        return ""  # It has no address.
    return socket.inet_ntoa(answer[20:24])
