"""`drumbeat ui`: the link of the web page."""

import pytest

from tests.unit.cli.fake_server import FakeServer, Type
from tests.unit.cli.samples import a_job


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


@pytest.mark.feature("M3")
def test_ui_of_a_job_prints_a_link_to_its_screen_and_refuses_an_unknown_one(server: FakeServer, drumbeat: Type) -> None:
    job = a_job()
    server.jobs[job.name] = job
    done = drumbeat("ui", job.name, "--print")
    assert done.stdout == f"http://127.0.0.1:8080/ui/open/once?to=%2Fui%2Fjobs%2F{job.name}\n"
    assert drumbeat("ui", "unknown", "--print").exit_code != 0
