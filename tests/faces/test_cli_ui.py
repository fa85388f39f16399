"""`drumbeat ui`: the link of the web page."""

import pytest

from tests.unit.cli.fake_server import FakeServer, Type


@pytest.mark.feature("M3")
def test_ui_prints_the_link_and_opens_no_browser_without_a_screen(
    server: FakeServer, drumbeat: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    for words in (("ui",), ("ui", "--print")):
        done = drumbeat(*words)
        assert done.exit_code == 0
        assert done.stdout == "http://127.0.0.1:8080/ui/open/once\n"
    assert server.calls == [("page_link",), ("page_link",)]
