"""Brings the inputs of a job that lie in stores to its node: lists them, reserves space, fetches, and lays them out as
links.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from drumbeat.model import folder_layout, wire
from drumbeat.model.agent import WAITS, Enrolment
from drumbeat.model.errors import StorageError, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.input_listing import Listing
from drumbeat.model.plan import InputPlan
from drumbeat.model.roster import Member
from drumbeat.node.inputs.cache import link_tree
from drumbeat.node.inputs.cache.eviction import CacheSpace, in_words
from drumbeat.node.inputs.cache.files import Files, name_of
from drumbeat.node.inputs.fetching.fetch_context import Means
from drumbeat.node.inputs.fetching.fetch_threads import Fetch
from drumbeat.node.inputs.fetching.http_client import FetchTimeouts, is_for_good
from drumbeat.node.inputs.fetching.piece_queue import Want
from drumbeat.node.inputs.fetching.progress import Meter
from drumbeat.node.platform import cache_folders
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.platform.server_link import ServerLink

if TYPE_CHECKING:
    from drumbeat.node.inputs.fetching.peer_client import PeerClient
    from drumbeat.node.inputs.fetching.peer_server import DataServer
    from drumbeat.node.inputs.input_ways import Ways

T = TypeVar("T")

ROOM_S = 600.0
"""How long other jobs may keep the cache full."""


class NodeInputs:
    """The inputs of one attempt on one node."""

    def __init__(self, enrolment: Enrolment, ways: Ways, timeouts: FetchTimeouts | None = None) -> None:
        self._enrolment, self._ways = enrolment, ways
        self._planned = [one for one in enrolment.plan.inputs if one.is_remote]
        self._timeouts = timeouts or FetchTimeouts(give_up_s=max(60.0, enrolment.plan.lost_after_s))
        self._folder = cache_folders.data_folder()
        self._server = ServerLink(enrolment)
        self._serving: DataServer | None = None
        self._progress: Callable[[str], None] = _silent

    @cached_property
    def _files(self) -> Files:
        return Files(self._folder)

    def serve(self, member: Member) -> Member:
        """Begins to pass on what there is to the other nodes; gives what this node is to them now."""
        if self._enrolment.plan.nodes == 1:
            return member
        from drumbeat.node.inputs.fetching.peer_server import DataServer, cache_name

        try:
            self._serving = self._serving or DataServer(self._files, member.address, self._enrolment.shared_secret)
            return replace(member, data_port=self._serving.port, cache=cache_name(self._files))
        except OSError:  # Staging reports it; the other nodes do without this one.
            return member

    @property
    def data_server(self) -> DataServer | None:
        """What passes files on to other nodes, None = nothing does."""
        return self._serving

    def close(self) -> None:
        """Passes on no more: all nodes have what they need."""
        if self._serving is not None:
            threading.Thread(target=self._serving.close, name="closing", daemon=True).start()
            self._serving = None

    def stage(self, progress: Callable[[str], None]) -> None:
        """Does what is missing, and tells in words what it does. Raises DrumbeatError, OSError."""
        self._progress = progress
        asked = {one.name: self._listing(one) for one in self._planned}
        for name, (listing, _) in asked.items():
            link_tree.check(name, listing)
        fetched = [one for one in self._planned if not self._has_otherwise(one, *asked[one.name])]
        listings = {one.name: asked[one.name][0] for one in fetched}
        if self._serving is not None:
            self._serving.add(name_of(file) for one in listings.values() for file in one.files)
        came = self._fetch(listings, self._take_room(listings.values()))
        for one in fetched:
            self._lay_out(one, listings[one.name])
        used = {name_of(file) for one in listings.values() for file in one.files}
        threading.Thread(target=self._settle, args=[used, came], name="settling", daemon=True).start()

    # --- steps ----------------------------------------------------------------------------------------------------
    def _listing(self, planned: InputPlan) -> tuple[Listing, str]:
        """Returns an input's files, and the server's own folder that it is, "" = none."""
        self._progress(f"asking what input {planned.name} consists of")
        listing, folder = self._until_reached(planned, lambda: self._server.input(planned.name))
        return wire.from_wire(Listing, listing), folder

    def _has_otherwise(self, planned: InputPlan, listing: Listing, folder: str) -> bool:
        if planned.mount:
            self._progress(f"mounting input {planned.name}")
        return self._ways.has(planned, listing, folder)

    def _until_reached(self, planned: InputPlan, ask: Callable[[], T]) -> T:
        """Calls the server until it answers. Raises permanent errors, and those that have lasted too long."""
        backoff, since = Backoff(), time.monotonic()
        while True:
            try:
                return ask()
            except (UnreachableError, StorageError) as error:
                if is_for_good(error):
                    raise
                if self._timeouts.is_over(error, since):
                    what = f"{error.what}; tried for {self._timeouts.limit_s(error):.0f} s"
                    raise UnreachableError(what, where=error.where, fix=error.fix) from error
                named = f"input {planned.name}"
                self._progress(f"{named}{WAITS}{error.what.removeprefix(f'{named}: ')}")
                backoff.wait()

    def _take_room(self, listings: Iterable[Listing]) -> frozenset[str]:
        """Returns the names in the cache of the files that are to be fetched."""
        files = [file for listing in listings for file in listing.files]
        room, backoff, since = CacheSpace(self._files), Backoff(), time.monotonic()
        while why := room.take(self._enrolment.job, self._enrolment.root, files):
            if time.monotonic() - since > ROOM_S:
                raise StorageError(
                    why, where=self._files.folder, fix="Wait for those jobs, or let the cache have more."
                )
            self._progress(f"staging{WAITS}{why}")
            backoff.wait()
        return room.missing

    def _fetch(self, listings: dict[str, Listing], missing: frozenset[str]) -> list[str]:
        """Gives what it brought, by names in the cache."""
        wants: dict[str, Want] = {}
        for name, listing in listings.items() if missing else ():
            for file in listing.files:
                if (key := name_of(file)) in missing and key not in wants:
                    wants[key] = Want(name, file)
        if not wants:
            return []
        names = list(dict.fromkeys(want.input for want in wants.values()))
        what = f"input {names[0]}" if len(names) == 1 else f"inputs {', '.join(names)}"
        meter = Meter(what, sum(want.file.size for want in wants.values()), self._progress)
        if self._serving is not None:
            self._serving.add((), lambda: meter.came)
        means = Means(self._files, lambda: ServerLink(self._enrolment), meter, self._timeouts, self._chain())
        Fetch(means, list(wants.values())).run()
        failpoint("cache.fetched")
        self._progress(f"{what}: {in_words(meter.came)} fetched")
        return list(wants)

    def _settle(self, used: set[str], came: list[str]) -> None:
        """Flushes the inputs to disk while the ranks run. What the disk refuses is fetched again after the machine's
        next start.
        """
        with suppress(OSError):
            for name in used.difference(came):
                self._files.touch(name)
            if came:
                self._files.settle(came)

    def _chain(self) -> PeerClient | None:
        if not self._enrolment.node or self._serving is None:
            return None
        from drumbeat.node.inputs.fetching.peer_client import PeerClient, PeerIdentity
        from drumbeat.node.inputs.fetching.peer_server import cache_name

        identity = PeerIdentity(self._enrolment.node, cache_name(self._files), self._enrolment.shared_secret)
        return PeerClient(identity, ServerLink(self._enrolment).peers, self._timeouts)

    def _lay_out(self, planned: InputPlan, listing: Listing) -> None:
        place = folder_layout.input_path(self._enrolment.root, planned)
        if os.path.lexists(place) and not _is_bare(place):
            return
        os.makedirs(os.path.dirname(place), exist_ok=True)
        part = link_tree.fresh(place)
        link_tree.build(self._files, listing, part)
        failpoint("cache.laid_out")
        os.rename(part, place)


def _is_bare(place: str) -> bool:
    """Whether it is but a folder to mount on."""
    return os.path.isdir(place) and not os.listdir(place)


def _silent(_sentence: str) -> None:
    """Takes what is said before anything listens."""
