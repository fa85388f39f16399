"""The targets of notices, by name, with their secrets sealed. They are kept in one setting of the servers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from drumbeat.control.catalog.sealing import Seal
from drumbeat.dialect.reading.error_messages import nearest
from drumbeat.ports import Store
from drumbeat.protocol.api.notices import NoticeTargetView
from drumbeat.protocol.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from drumbeat.dialect.notices.targets import AnyTarget

SETTING = "notices"
_MAX_TRIES = 100
"""How often a change is made again since another one came between."""
_Stored = dict[str, dict[str, Any]]


class NoticeTargets:
    """What people make, and what the ends of jobs are reported to. Thread-safe."""

    def __init__(self, store: Store, key: bytes) -> None:
        self._store, self._seal = store, Seal(key, "notice target")
        self._problems: dict[str, str] = {}
        """By target: why its last notice could not be delivered, as far as this server knows."""

    # --- for people -------------------------------------------------------------------------------------------
    def views(self) -> list[NoticeTargetView]:
        """Returns all of them, without their secrets."""
        return [self.view(name) for name in self._stored()]

    def view(self, name: str) -> NoticeTargetView:
        """Returns one of them. Raises NotFoundError."""
        target = self.named(name)
        return view_of(target, self._problems.get(name, ""))

    def create(self, document: Mapping[str, object], source: str) -> tuple[NoticeTargetView, bool]:
        """Keeps a target, in place of one of its name; and whether there was none. Raises SpecError."""
        from drumbeat.dialect.notices.targets import split, target_from

        made = target_from(document, source)
        kept, credentials = split(made)
        sealed = base64.b64encode(self._seal.close(_bound(kept), credentials)).decode()
        entry = {"document": kept, "sealed": sealed}
        before = self._change(lambda stored: {**stored, made.name: entry})
        self._problems.pop(made.name, None)
        return view_of(made), made.name not in before

    def delete(self, name: str) -> None:
        """Forgets a target. Notices that wait for it are dropped. Raises NotFoundError."""
        self.named(name)
        self._change(lambda stored: {other: one for other, one in stored.items() if other != name})

    # --- for jobs ---------------------------------------------------------------------------------------------
    def named(self, name: str) -> AnyTarget:
        """Returns a target with its secrets. Raises NotFoundError, StorageError."""
        from drumbeat.dialect.notices.targets import target_from

        stored = self._stored()
        if name not in stored:
            fix = nearest(name, stored) or "Make it: drumbeat notice create -f FILE"
            raise NotFoundError(
                f"there is no notice target {name}; there is {', '.join(stored) or 'none yet'}", fix=fix
            )
        document = stored[name]["document"]
        secrets = self._seal.open(_bound(document), base64.b64decode(stored[name]["sealed"]))
        return target_from({**document, **({"credentials": secrets} if secrets else {})})

    def check(self, names: Sequence[str]) -> None:
        """Raises NotFoundError unless each of a job's `notify` is a target, or an address and a mail target exists."""
        for name in names:
            if "@" not in name:
                self.named(name)
            elif not self.mail():
                what = f"{name} can't be notified: the server has no notice target of type mail"
                raise NotFoundError(what, where="drumbeat.notify", fix="Make one: drumbeat notice create -f FILE")

    def documents(self) -> dict[str, dict[str, Any]]:
        """Returns what each target says of itself, without its secrets."""
        return {name: one["document"] for name, one in self._stored().items()}

    def note(self, name: str, problem: str) -> None:
        """Keeps why the last notice to a target could not be delivered; "" = it was."""
        self._problems = {**self._problems, name: problem}

    def mail(self) -> str:
        """The name of the first mail target; "" = there is none."""
        return next((name for name, document in self.documents().items() if document["type"] == "mail"), "")

    def _stored(self) -> dict[str, dict[str, Any]]:
        return _read(self._store.setting(SETTING))

    def _change(self, change: Callable[[_Stored], _Stored]) -> _Stored:
        """Changes the targets as they are now, and returns what they were. Raises StorageError."""
        for _ in range(_MAX_TRIES):
            text = self._store.setting(SETTING)
            before = _read(text)
            after = change(before)
            if self._store.replace_setting(SETTING, text, json.dumps(dict(sorted(after.items()))) if after else ""):
                return before
        raise ConflictError("the notice targets are changed by others all the time", fix="Try again.")


def _read(text: str) -> _Stored:
    return json.loads(text) if text else {}


def view_of(target: AnyTarget, problem: str = "") -> NoticeTargetView:
    """A target without its secrets."""
    if target.type == "mail":
        place, receivers = f"{target.host}:{target.port}", tuple(target.to)
    else:
        place, receivers = urlsplit(target.credentials.url.get_secret_value()).hostname or "", ()
    return NoticeTargetView(
        target.name, target.type, target.jobs, tuple(target.on), place, receivers, target.description or "", problem
    )


def _bound(document: Mapping[str, Any]) -> str:
    """What secrets are sealed for: who can write to the database can't send them to another host."""
    return f"{document['name']} at {document.get('host', 'its url')}:{document.get('port', '')}"
