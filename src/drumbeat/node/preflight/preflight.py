"""Runs a node's part of the pre-flight beside the staging of its files.

The job's key `preflight` in `jobfile/job/extensions.py` turns it off; the limits of the measurements are in
`core/diagnosis/preflight.py`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import DrumbeatError, StaleError, StorageError
from drumbeat.model.preflight import LinkCheck, NodeCheck
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink
from drumbeat.node.platform.unusable_node import UnusableNodeError
from drumbeat.node.preflight import tournament
from drumbeat.node.preflight.link_probe import CONNECT_S, LinkProbe
from drumbeat.node.preflight.local_checks import LocalCheck, check
from drumbeat.node.preflight.probe_server import ProbeServer

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
        turns = [one for one in tournament.peers(own, len(peers)) if (peers[one] or {}).get("probe_port", OUT) > 0]
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
