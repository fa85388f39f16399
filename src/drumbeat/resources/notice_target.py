"""Notice targets: where the server reports the ends of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from drumbeat.model.api.notices import NoticeTargetView
from drumbeat.resources.kind import Kind, Sentences, StoredResource

if TYPE_CHECKING:
    from drumbeat.jobfile.notices.targets import AnyTarget
    from drumbeat.jobfile.reading.loader import DocumentKind


def _model() -> DocumentKind:
    from drumbeat.jobfile.notices.targets import TARGET

    return TARGET


def _view(kept: StoredResource) -> NoticeTargetView:
    target: AnyTarget = kept.open()
    if target.type == "mail":
        place, receivers = f"{target.host}:{target.port}", tuple(target.to)
    else:
        place, receivers = urlsplit(target.credentials.url.get_secret_value()).hostname or "", ()
    return NoticeTargetView(
        target.name, target.type, target.jobs, tuple(target.on), place, receivers, target.description or ""
    )


def _created(made: NoticeTargetView) -> str:
    whose = "every job" if made.jobs == "all" else "jobs that name it"
    lines = [f"notice target {made.name} created: {made.type} at {made.place}, for {whose}"]
    return "\n".join([*lines, f"  try it: drumbeat notice test {made.name}"])


NOTICE_TARGET = Kind(
    name="notice",
    noun="notice target",
    plural="notice targets",
    path="notices",
    view_type=NoticeTargetView,
    view=_view,
    model=_model,
    sealed_for=lambda document: f"{document['name']} at {document.get('host', 'its url')}:{document.get('port', '')}",
    sentences=Sentences(
        about="Create and try notice targets: webhooks and mail that report the ends of jobs. See docs/notices.md.",
        page="docs/notices.md",
        create="""Create a notice target, or replace the one of the same name.

        The file doesn't have to contain secrets: `url: env:NAME` reads one from the environment of this command,
        `password: file:PATH` from a file. The server stores them encrypted and never shows them.
        """,
        list="List notice targets.",
        show="Show a notice target without its secrets, and why its last notice could not be delivered.",
        delete="Delete a notice target and its secrets. Notices that wait for it are dropped.",
        example="slack",
        create_example="-f slack.yml --set credentials.url=env:SLACK_URL",
        columns=lambda one: {
            "target": one.name,
            "type": one.type,
            "jobs": one.jobs,
            "on": ", ".join(one.on),
            "place": one.place,
            "last problem": one.problem,
        },
        details=lambda one: {
            "target": one.name,
            "type": one.type,
            "jobs": one.jobs,
            "on": ", ".join(one.on),
            "place": one.place,
            "receivers": ", ".join(one.receivers),
            "description": one.description,
            "last problem": one.problem,
        },
        empty="no notice targets",
        created=_created,
        deleted="notice target {name} is deleted",
    ),
)
