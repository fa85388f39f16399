"""Runs a node's part of the pre-flight beside the staging of its files.

The job's key `preflight` in `jobfile/job/extensions.py` turns it off; the limits of the measurements are in
`core/diagnosis/preflight.py`.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import DrumbeatError, StaleError, StorageError
from drumbeat.model.preflight import UNKNOWN, LinkCheck, NodeCheck
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.node.platform.unusable_node import UnusableNodeError
from drumbeat.node.preflight.link_probe import CONNECT_S, LinkProbe
from drumbeat.node.preflight.probe_server import ProbeServer

# --- the machine's own checks ---
#
# A node's checks of its own machine: a write to its disk, the free space, and its GPUs.
#
# `core/diagnosis/preflight.py` judges the measurements.

WRITTEN_BYTES = 1 << 20
_DEVICE = re.compile(r"nvidia\d+")


@dataclass(frozen=True)
class LocalCheck:
    """A node's findings about its own machine."""

    free_bytes: int = UNKNOWN
    write_ms: int = UNKNOWN
    gpus: int = UNKNOWN


def check(folder: str) -> LocalCheck:
    """Checks the machine. folder: the attempt's. Raises UnusableNodeError if it isn't writable."""
    begun = time.monotonic()
    try:
        _write(f"{folder}/preflight.part")
        space = os.statvfs(folder)
    except OSError as error:
        what = f"the disk accepts no file: {error.strerror or error}"
        raise UnusableNodeError(what, where=folder, fix="Free space there, or repair the disk.") from error
    write_ms = round((time.monotonic() - begun) * 1000)
    return LocalCheck(space.f_bavail * space.f_frsize, write_ms, count_gpus())


def _write(path: str) -> None:
    """Writes and syncs a file, and removes it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        data = memoryview(os.urandom(WRITTEN_BYTES))
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        os.unlink(path)


def count_gpus(devices: str = "/dev", visible: str | None = None) -> int:
    """Returns how many GPUs this process may open; UNKNOWN if they aren't NVIDIA's, or are slices (MIG).

    visible: the value of CUDA_VISIBLE_DEVICES, by default this process's.
    """
    names = os.listdir(devices)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "") if visible is None else visible
    if "kfd" in names or "MIG-" in visible:
        return UNKNOWN
    return sum(bool(_DEVICE.fullmatch(name)) and os.access(f"{devices}/{name}", os.R_OK | os.W_OK) for name in names)


# --- the order of the links ---
#
# The order in which the nodes of a job measure their links: rounds of pairs that share no node. Pure.

MAX_ROUNDS = 15
"""The maximum number of rounds: with more nodes, every node measures only this many of its links."""


def rounds(nodes: int) -> list[list[tuple[int, int]]]:
    """Returns rounds of disjoint pairs that contain each pair of nodes once, the lower node first.

    This is the circle method of tournaments: one place is fixed, the others rotate by one in each round. An odd number
    of nodes gets an empty place, so that one node rests in each round.
    """
    places = nodes + nodes % 2
    return [_pairs(round_, places, nodes) for round_ in range(places - 1)] if nodes > 1 else []


def _pairs(round_: int, places: int, nodes: int) -> list[tuple[int, int]]:
    moving = places - 1
    pairs = [(moving, round_)]
    pairs += [((round_ + step) % moving, (round_ - step) % moving) for step in range(1, places // 2)]
    return sorted((min(pair), max(pair)) for pair in pairs if max(pair) < nodes)


def measured_peers(node: int, nodes: int, most: int = MAX_ROUNDS) -> list[int]:
    """Returns the peers of a node's measurements, in order; with many nodes, those of evenly spaced rounds."""
    if nodes < 2:
        return []
    count = nodes - 1 + nodes % 2
    chosen = range(count) if count <= most else [count * number // most for number in range(most)]
    places = nodes + nodes % 2
    return [peer for round_ in chosen if (peer := _peer(node, round_, places)) < nodes]


def _peer(node: int, round_: int, places: int) -> int:
    """Returns a node's peer in a round without listing the round, which would cost a thousand
    nodes a thousand times.
    """
    moving = places - 1
    if node == moving:
        return round_
    peer = (2 * round_ - node) % moving
    return moving if peer == node else peer


BUDGET_S = 5.0
"""The time for all links of a node, once all nodes are there."""
PEERS_TIMEOUT_S = 60.0
"""How long to wait for nodes that haven't come; later ones then measure their links to the others."""
BURST_S = 0.15
_BURSTS_S = 1.6
"""The time for all bursts of a node that has many."""
_LOCAL_S = 5.0
"""How long the machine's own checks may take after the links: a disk may not answer at all."""
OUT = -1
"""The port of a node that can't participate."""

Peers = Sequence[Mapping[str, Any] | None]


class Preflight:
    """One node's pre-flight.

    announce: receives the port at which this node answers. report: receives the result. ask: returns the status of the
    nodes, None = the server is asked.
    """

    def __init__(
        self,
        enrolment: Enrolment,
        address: str,
        announce: Callable[[int], None],
        report: Callable[[NodeCheck], None],
        ask: Callable[[], Peers] | None = None,
    ) -> None:
        self._enrolment, self._address = enrolment, address
        self._ask, self._announce, self._report = ask or ServerLink(enrolment).peers, announce, report
        self._server: ProbeServer | None = None
        self._local = LocalCheck()
        self._trouble: UnusableNodeError | None = None
        self._path = f"{enrolment.root}/preflight.json"
        self._machine = threading.Thread(target=self._check_machine, name="preflight machine", daemon=True)
        self._links = threading.Thread(target=self._check_links, name="preflight links", daemon=True)

    def around(self, stage: Callable[[], None]) -> None:
        """Stages, and returns after the pre-flight's report, too. Raises what `stage` raises.

        Raises UnusableNodeError if the disk isn't writable. Links are measured meanwhile, but not before the transfer
        of inputs has ended, which would compete for their bandwidth.
        """
        if (before := self._kept()) is not None:
            self._announce(OUT)
            self._report(before)
            stage()
            return
        self._begin(self._machine)
        if not self._has_transfers:
            self._begin(self._links)
        try:
            stage()
        except StorageError:
            self._machine.join(_LOCAL_S)
            if self._trouble:
                raise self._trouble from None
            raise
        self._machine.join(_LOCAL_S)
        if self._trouble:
            raise self._trouble
        self._begin(self._links)
        self._links.join()

    def _begin(self, thread: threading.Thread) -> None:
        """Starts a thread, unless an earlier staging of this agent started it."""
        if thread.ident is None:
            thread.start()

    @property
    def _has_transfers(self) -> bool:
        return any(one.is_remote for one in self._enrolment.plan.inputs)

    def close(self) -> None:
        """Stops answering other nodes."""
        if self._server is not None:
            self._server.close()

    # --- the machine --------------------------------------------------------------------------------------------------
    def _check_machine(self) -> None:
        try:
            self._local = check(self._enrolment.root)
        except UnusableNodeError as error:
            self._trouble = error

    # --- the links ----------------------------------------------------------------------------------------------------
    def _check_links(self) -> None:
        try:
            self._server = self._server or ProbeServer(self._address, self._enrolment.shared_secret)
        except OSError:
            self._announce(OUT)
            self._machine.join(_LOCAL_S)
            self._finish((), time.monotonic())
            return
        self._announce(self._server.port)
        peers = self._await_peers()
        begun = time.monotonic()
        links = self._measure(self._server, peers, begun + BUDGET_S) if peers else ()
        self._server.open()
        self._machine.join(_LOCAL_S)
        self._finish(links, begun)

    def _await_peers(self) -> Peers:
        """Returns all members once each has announced its port, or after a while; empty if the attempt is over."""
        nodes, end = self._enrolment.plan.nodes, time.monotonic() + PEERS_TIMEOUT_S
        pause = Backoff(0.05, 1.0 + nodes / 50)  # The server's answer grows with the number of nodes.
        while True:
            try:
                peers = self._ask()
                is_whole = len(peers) == nodes and all(peer and peer.get("probe_port") for peer in peers)
                if is_whole or time.monotonic() > end:
                    return peers
            except StaleError:
                return ()
            except DrumbeatError:  # The server is away: wait for it as everywhere.
                pass
            pause.wait()

    def _measure(self, server: ProbeServer, peers: Peers, end: float) -> tuple[LinkCheck, ...]:
        """Measures this node's links. The higher node of a pair calls, as all ranks call node 0, too."""
        own = self._enrolment.node
        turns = [one for one in measured_peers(own, len(peers)) if (peers[one] or {}).get("probe_port", OUT) > 0]
        burst_s = min(BURST_S, _BURSTS_S / (2 * max(1, len(turns))))
        probe = LinkProbe(own, self._enrolment.shared_secret, burst_s)
        links: list[LinkCheck] = []
        for peer in turns:
            # A missing peer must not use the time of later ones.
            until = min(end, time.monotonic() + CONNECT_S + 8 * burst_s)
            if time.monotonic() >= end:
                break
            if peer > own:
                server.serve(peer, until)
            else:
                links.append(self._measured(probe, peers, peer, until))
        return tuple(links)

    def _measured(self, probe: LinkProbe, peers: Peers, peer: int, until: float) -> LinkCheck:
        link = probe.measure(peers[peer] or {}, until)
        if not link.error:
            return link
        try:
            now = self._ask()[peer]
        except (DrumbeatError, IndexError):
            return link
        has_moved = now is not None and now != peers[peer]
        return probe.measure(now, until) if has_moved and now else link  # Its agent was restarted.

    def _finish(self, links: tuple[LinkCheck, ...], begun: float) -> None:
        elapsed_ms = round((time.monotonic() - begun) * 1000)
        local = self._local
        result = NodeCheck(links, local.free_bytes, local.write_ms, local.gpus, elapsed_ms)
        self._keep(result)
        self._report(result)

    # --- one result for an attempt ------------------------------------------------------------------------------------
    def _kept(self) -> NodeCheck | None:
        """Returns the result of an earlier agent of this attempt."""
        try:
            with open(self._path, encoding="utf-8") as file:
                return wire.from_wire(NodeCheck, json.load(file))
        except (OSError, ValueError):
            return None

    def _keep(self, result: NodeCheck) -> None:
        try:
            with open(f"{self._path}.part", "w", encoding="utf-8") as file:
                json.dump(wire.to_wire(result), file)
            os.replace(f"{self._path}.part", self._path)
        except OSError:
            return  # The next agent measures again.
