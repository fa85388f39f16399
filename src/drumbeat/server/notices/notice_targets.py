"""Notice targets."""

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
    """Manages notice targets. Thread-safe."""

    def __init__(self, catalog: SqlStore, key: bytes) -> None:
        super().__init__(NOTICE_TARGET, catalog, key)
        self._problems: dict[str, str] = {}
        """Why the last notice of this server to each target could not be delivered, by target."""

    def create(self, document: Mapping[str, object], source: str) -> tuple[NoticeTargetView, bool]:
        """Creates a target like other resources, and drops the problem of an earlier one of its name."""
        made, is_new = super().create(document, source)
        self.note(made.name, "")
        return replace(made, problem=""), is_new

    def check(self, names: Sequence[str]) -> None:
        """Raises NotFoundError unless each entry of a job's `notify` is a target, or an address with a mail target."""
        for name in names:
            if "@" not in name:
                self.opened(name)
            elif not self.mail():
                what = f"{name} can't be notified: the server has no notice target of type mail"
                raise NotFoundError(what, where="drumbeat.notify", fix="Create one: drumbeat notice create -f FILE")

    def note(self, name: str, problem: str) -> None:
        """Records why the last notice to a target could not be delivered; "" = it was delivered."""
        self._problems = {**self._problems, name: problem}

    def mail(self) -> str:
        """Returns the name of the first mail target; "" = there is none."""
        return next((name for name, document in self.documents().items() if document["type"] == "mail"), "")

    def _view(self, one: Resource) -> NoticeTargetView:
        return replace(super()._view(one), problem=self._problems.get(one.name, ""))
