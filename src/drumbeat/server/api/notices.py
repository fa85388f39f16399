"""The notice targets: besides the routes of each kind, one that tries a target."""

from __future__ import annotations

from drumbeat.protocol.api.notices import NoticeTargetView
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.server.api.resources import Name, resource_router
from drumbeat.server.context import ControlOf

router = resource_router(NOTICE_TARGET)


@router.post("/{name}/test")
def send_test_notice(name: Name, control: ControlOf) -> NoticeTargetView:
    """Delivers a test notice now, and answers when it was delivered or refused."""
    control.notice_sender.test(name)
    return control.catalogs.notices.show(name)
