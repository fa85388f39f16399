"""The targets of notices, as the ends of jobs use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from drumbeat.model.api.notices import NoticeTargetView
from drumbeat.model.errors import NotFoundError
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.records import Resource
from drumbeat.server.resources.resources import ResourceService


class NoticeTargets(ResourceService[NoticeTargetView]):
    """What the ends of jobs are reported to. Thread-safe."""

    def __init__(self, catalog: SqlStore, key: bytes) -> None:
        super().__init__(NOTICE_TARGET, catalog, key)
        self._problems: dict[str, str] = {}
        """By target: why its last notice could not be delivered, as far as this server knows."""

    def create(self, document: Mapping[str, object], source: str) -> tuple[NoticeTargetView, bool]:
        """As of other kinds; the problem of the target that had the name is forgotten."""
        made, is_new = super().create(document, source)
        self.note(made.name, "")
        return replace(made, problem=""), is_new

    def check(self, names: Sequence[str]) -> None:
        """Raises NotFoundError unless each of a job's `notify` is a target, or an address and a mail target exists."""
        for name in names:
            if "@" not in name:
                self.opened(name)
            elif not self.mail():
                what = f"{name} can't be notified: the server has no notice target of type mail"
                raise NotFoundError(what, where="drumbeat.notify", fix="Make one: drumbeat notice create -f FILE")

    def note(self, name: str, problem: str) -> None:
        """Keeps why the last notice to a target could not be delivered; "" = it was."""
        self._problems = {**self._problems, name: problem}

    def mail(self) -> str:
        """The name of the first mail target; "" = there is none."""
        return next((name for name, document in self.documents().items() if document["type"] == "mail"), "")

    def _view(self, one: Resource) -> NoticeTargetView:
        return replace(super()._view(one), problem=self._problems.get(one.name, ""))
