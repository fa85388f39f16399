"""How a node gets an input without fetching it: in place, if it sees the very folder; mounted, if requested."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from drumbeat.model import folder_layout
from drumbeat.model.agent import Enrolment, NodeMessage
from drumbeat.model.errors import EngineError, RefusedError
from drumbeat.model.input_listing import Listing
from drumbeat.model.plan import InputPlan
from drumbeat.node.inputs.cache.eviction import in_words
from drumbeat.node.inputs.mounting.in_place_record import forget, note
from drumbeat.node.inputs.mounting.mounts import Mounts
from drumbeat.node.inputs.mounting.read_rates import LEAST, Rates
from drumbeat.node.inputs.mounting.unmounting import folder_of


class Ways:
    """The ways to the inputs of one attempt on one node. remember: takes messages for users."""

    def __init__(
        self, enrolment: Enrolment, mounts: Callable[[], Mounts], remember: Callable[[NodeMessage], None]
    ) -> None:
        self._root, self._mounts, self._remember = enrolment.root, mounts, remember

    def has(self, planned: InputPlan, listing: Listing, folder: str) -> bool:
        """Whether the ranks have it now. folder: the server's own that it is, "" = none. Raises OSError."""
        if folder and sees(folder, listing):
            note(self._root, planned.name, folder)
            self._report(planned, f"is used in place: {folder}")
            return True
        forget(self._root, planned.name)
        return planned.mount and self._is_mounted(planned, listing)

    def _is_mounted(self, planned: InputPlan, listing: Listing) -> bool:
        is_there = os.path.lexists(folder_layout.input_path(self._root, planned))
        if is_there and not os.path.isdir(f"{folder_of(self._root)}/{planned.name}"):
            return False  # An earlier agent fetched it.
        try:
            rates = self._mounts().mount(planned, listing)
        except (RefusedError, EngineError) as error:
            self._report(planned, f"isn't mounted but fetched to the node's disk: {error.what}")
            return False
        self._report(planned, format_rates(rates, "eval_download" if planned.evaluated else "download"))
        return True

    def _report(self, planned: InputPlan, sentence: str) -> None:
        self._remember(NodeMessage(f"input {planned.name}", f"input {planned.name} {sentence}"))


def format_rates(rates: Rates | None, mode: str = "download") -> str:
    """Describes the read rate of a mount, with the mode to use if a copy would be faster."""
    if rates is None or rates.size < LEAST:
        return "is mounted; there is too little of it to measure a rate"
    mount, disk = (f"{in_words(int(rate))}/s" for rate in (rates.mount, rates.disk))
    read = f"{in_words(rates.size)} in {rates.files} {'file' if rates.files == 1 else 'files'}"
    measured = f"is mounted: {mount} were read through it ({read}), and {disk} from this node's disk"
    if rates.mount >= rates.disk:
        return measured
    return f"{measured}; for data that is read more than once, `mode: {mode}` is faster"


def sees(folder: str, listing: Listing) -> bool:
    """Whether the path has the same contents here as on the server: just the listed files, with their sizes and times.

    A folder with drumbeat's own manifest isn't: ranks are to see the files alone.
    """
    if listing.is_file:
        return _is_same(folder, listing.files[0].size, listing.files[0].tag)
    wanted = {f"{folder.rstrip('/')}/{file.path}": file for file in listing.files}
    count = 0
    for above, _, names in os.walk(folder.rstrip("/")):
        for name in names:
            path = f"{above}/{name}"
            file = wanted.get(path)
            if file is None or not _is_same(path, file.size, file.tag):
                return False
            count += 1
    return count == len(wanted) > 0


def _is_same(path: str, size: int, tag: str) -> bool:
    """Whether a path is a file of that size and tag. tag: the modification time in ns, which identifies a version for
    the store of a folder.
    """
    try:
        status = os.stat(path)
    except OSError:
        return False
    is_file = stat.S_ISREG(status.st_mode) and os.access(path, os.R_OK)
    return is_file and (status.st_size, str(status.st_mtime_ns)) == (size, tag)
