"""Fetches small files many at a time: from the node before in one answer, else one by one over a few connections."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

from drumbeat.model.errors import StorageError, UnreachableError
from drumbeat.node.inputs.cache.partial_file import Claim
from drumbeat.node.inputs.cache.small_file import Small, claim_small
from drumbeat.node.inputs.fetching.fetch_context import Means
from drumbeat.node.inputs.fetching.piece_queue import FetchQueue, Want
from drumbeat.node.inputs.fetching.store_client import StoreClient
from drumbeat.node.platform.request_backoff import Backoff


@dataclass
class BatchFetch:
    """Fetches one batch, in one thread."""

    means: Means
    work: FetchQueue
    store: StoreClient
    _begun: dict[str, tuple[Want, Small]] = field(default_factory=dict[str, "tuple[Want, Small]"])

    def bring(self, wants: Sequence[Want]) -> None:
        """Fetches until each file is complete or another process's, or the work has failed. Raises DrumbeatError,
        OSError.
        """
        try:
            self._claim(wants)
            self._from_the_chain()
            self._from_plain_answers()
            while self._begun and self.work.error is None:
                self._from_the_store(next(iter(self._begun.values()))[0])
        finally:
            for _, small in self._begun.values():
                small.drop()

    def _claim(self, wants: Sequence[Want]) -> None:
        taken: list[Want] = []
        for want in wants:
            claimed = claim_small(self.means.files, want.file)
            if isinstance(claimed, Small):
                self._begun[want.name] = want, claimed
            elif claimed is Claim.TAKEN:
                taken.append(want)
            else:
                self.means.meter.less(want.file.size)
        if taken:
            self.work.taken(taken)

    def _from_the_chain(self) -> None:
        chain = self.means.chain
        while chain is not None and self._begun and self.work.error is None:
            sizes = {name: want.file.size for name, (want, _) in self._begun.items() if not want.wrong}
            files = chain.files(self.store.lines, sizes, lambda: self.work.error is not None)
            if not files:
                return
            for name, data in files.items():
                self.means.meter.add(len(data))
                self._finish(self._begun[name][0], data)

    def _from_plain_answers(self) -> None:
        """Brings what the store gives at once; `_from_the_store` sees to the rest, and to what is to be said of it."""
        wants = [want for want, _ in self._begun.values() if want.file.size and not want.wrong]
        try:
            with closing(self.store.plain(wants)) as answers:
                for want, answer in answers:
                    self.means.meter.add(answer.length)
                    self._finish(want, answer.body)
                    if self.work.error is not None:
                        return
        except (UnreachableError, StorageError):
            return

    def _from_the_store(self, want: Want) -> None:
        backoff, came = Backoff(), bytearray()
        while len(came) < want.file.size and self.work.error is None:
            before = len(came)
            try:
                self._read_on(want, came)
            except (UnreachableError, StorageError) as error:
                if len(came) > before:
                    backoff.reset()
                self.means.wait(error, backoff)
        if self.work.error is None:
            self._finish(want, bytes(came))

    def _finish(self, want: Want, data: bytes | bytearray) -> None:
        if self._begun[want.name][1].finish(data):
            del self._begun[want.name]
        else:
            self.means.came_wrong(want, len(data))

    def _read_on(self, want: Want, came: bytearray) -> None:
        """Adds to what came; nothing when the link was refused: the next one may not be. Raises UnreachableError."""
        at, size, skip, is_answered = len(came), want.file.size, 0, False

        def on_answer(is_range: bool) -> None:  # noqa: FBT001 (a callback's one word)
            nonlocal skip, is_answered
            skip, is_answered = 0 if is_range else at, True

        with closing(self.store.read(want, at, size - at, on_answer)) as blocks:
            for block in blocks:
                rest = block[skip:]
                skip = max(0, skip - len(block))
                came += rest
                if rest:
                    self.means.meter.add(len(rest))
                if len(came) >= size or self.work.error is not None:
                    return
        if is_answered and len(came) == at:
            what = f"input {want.input}: {want.file.path} ends after {at:,} of {size:,} bytes"
            raise UnreachableError(what, where=f"inputs.{want.input}")
