"""The calls of `Client` that are about notice targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.protocol.api.notices import NoticeTargetView
from drumbeat.protocol.errors import SpecError


class NoticeCalls:
    """A part of `Client`."""

    connection: Connection

    def notice_targets(self) -> list[NoticeTargetView]:
        """Returns where the server reports the ends of jobs, by name."""
        return views(NoticeTargetView, self.connection.call("GET", "/notices"))

    def notice_target(self, name: str) -> NoticeTargetView:
        """Returns one of them. Raises NotFoundError."""
        return view(NoticeTargetView, self.connection.call("GET", f"/notices/{part(name)}"))

    def create_notice_target(
        self, target: str | Path | Mapping[str, Any], *, sets: Sequence[str] = ()
    ) -> NoticeTargetView:
        """Makes a notice target, in place of one of its name: the path of a file, or a mapping in its form.

        Under `credentials`, `env:NAME` stands for a variable of this process, `file:PATH` for a file here. Raises
        SpecError.
        """
        document, source = _described(target, sets)
        body = {"document": document, "source": source}
        return view(NoticeTargetView, self.connection.call("POST", "/notices", json=body))

    def delete_notice_target(self, name: str) -> None:
        """Forgets a notice target. Raises NotFoundError."""
        self.connection.call("DELETE", f"/notices/{part(name)}")

    def test_notice_target(self, name: str) -> NoticeTargetView:
        """Delivers a test notice. Raises NotFoundError, UnreachableError, RefusedError."""
        return view(NoticeTargetView, self.connection.call("POST", f"/notices/{part(name)}/test"))


def _described(target: str | Path | Mapping[str, Any], sets: Sequence[str]) -> tuple[dict[str, Any], str]:
    """Returns the target as a document, its secrets in the clear, and where it was written."""
    from drumbeat.client.datastore_files import looked_up, resolved
    from drumbeat.dialect.notices.targets import load_target, split, target_from

    if isinstance(target, Mapping):
        if sets:
            raise SpecError("values are set in a file; this target was made in Python", fix="Set them in the mapping.")
        made, source = target_from({**target, **resolved(target, Path.cwd())}), "notice"
    else:
        made, source = load_target(target, [*sets, *looked_up(Path(target), sets)]), str(target)
    document, secrets = split(made)
    return {**document, **({"credentials": secrets} if secrets else {})}, source
