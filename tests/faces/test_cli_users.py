"""`drumbeat token` and `drumbeat quota`, typed at a server of this process."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drumbeat.cli.terminal.connect import MAKER
from drumbeat.client import Client
from tests.unit.cli.fake_server import Type, typing_in

from .api_house import TOKEN, House, house_in
from .test_api_users import USER


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


@pytest.fixture
def drumbeat(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Type]:
    with Client(url=house.url, token=TOKEN) as client:
        known = MAKER.set(lambda _: client)
        yield typing_in(tmp_path, monkeypatch)
        MAKER.reset(known)


@pytest.mark.feature("X3")
def test_token_is_printed_once_lets_its_person_in_and_is_removed(house: House, drumbeat: Type) -> None:
    assert "no tokens besides the one of the server's home" in drumbeat("token", "list").stdout
    made = drumbeat("token", "create", "eve", "--role", "reader")
    told, link = made.stderr.splitlines()
    assert told.startswith("eve is a reader; the token expires on 20")
    assert told.endswith(", and goes into DRUMBEAT_TOKEN")
    assert link.startswith(f"it opens the web page without the token, once, within 1d 0h: {house.url}/ui/open/")
    assert drumbeat("token", "link", "eve").stdout.startswith(f"{house.url}/ui/open/")
    assert drumbeat("token", "role", "eve", "owner").stdout == "eve is an owner now\n"
    assert drumbeat("token", "role", "eve", "reader").stdout == "eve is a reader now\n"
    with Client(url=house.url, token=made.stdout.strip()) as eve:
        assert eve.list() == []
    assert drumbeat("token", "list").stdout.splitlines()[-1].split()[:2] == ["eve", "reader"]
    assert "eve has a token already" in drumbeat("token", "create", "eve").stderr
    assert drumbeat("token", "remove", "eve").stdout == "eve has no token any more\n"
    assert drumbeat("token", "remove", "eve").exit_code == 1


@pytest.mark.feature("C9")
def test_quotas_are_set_listed_and_removed_and_use_is_shown(house: House, drumbeat: Type) -> None:
    assert drumbeat("quota", "list").stdout.startswith("no quotas; set one: drumbeat quota set person ada --gpus 8")
    said = drumbeat("quota", "set", "person", "*", "--gpus", 8, "--waiting", 20).stdout
    assert said == "person *: at most 8 GPUs, 20 waiting jobs\n"
    assert drumbeat("quota", "list").stdout.splitlines()[-1].split() == ["person", "*", "8", "20"]
    assert "give at least one of" in drumbeat("quota", "set", "person", "ada").stderr
    assert drumbeat("quota", "half-life", "3d").stdout == "recent use halves every 3d\n"
    house.submit("mine", experiment_name="cifar")
    lines = [line.split() for line in drumbeat("quota", "use").stdout.splitlines()]
    assert ["experiment", "cifar", "1", "0", "0"] in lines
    assert ["person", USER, "1", "0", "0"] in [line[:5] for line in lines]
    assert drumbeat("quota", "remove", "person", "*").stdout == "person * has no quota any more\n"


@pytest.mark.feature("X3")
def test_jobs_are_listed_by_user_and_shown_with_the_user(house: House, drumbeat: Type) -> None:
    house.submit("of-mine")
    assert "of-mine" in drumbeat("list", "--person", USER).stdout
    assert drumbeat("list", "--person", "nobody").stdout == "no jobs\n"
    assert f"person       {USER}" in drumbeat("show", "of-mine").stdout


@pytest.mark.feature("X3")
def test_audit_shows_what_was_refused_and_what_changed_jobs_of_others(house: House, drumbeat: Type) -> None:
    (house.home / "audit.log.1").write_text("2026-01-02 03:04:05,006 ada owner POST /api/v1/old 200\nhalf a line\n")
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    lines = ("ada contributor POST /api/v1/jobs/x/cancel 403 of eve", "bob owner DELETE /api/v1/jobs/x 200 of eve",
             "bob owner PUT /api/v1/tokens/ada/role 200")  # fmt: skip
    (house.home / "audit.log").write_text("".join(f"{now} {one}\n" for one in lines))
    told = drumbeat("audit", "--since", "1d").stdout
    assert [line.split("  ", 1)[1] for line in told.splitlines()] == [
        "ada (contributor)  POST /api/v1/jobs/x/cancel 403 (of eve)",
        "bob (owner)  DELETE /api/v1/jobs/x 200 (of eve)",
        "bob (owner)  PUT /api/v1/tokens/ada/role 200",
    ]
    assert "403" in drumbeat("audit", "--refused").stdout
    assert [one["who"] for one in json.loads(drumbeat("audit", "--others", "--json").stdout)] == ["ada", "bob"]
    assert drumbeat("audit", "--person", "eve").stdout == "nothing was changed or refused in this time\n"
    assert "/api/v1/old" in drumbeat("audit", "--since", "3650d").stdout
