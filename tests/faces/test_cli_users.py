"""`drumbeat token` and `drumbeat quota`, typed at a server of this process."""

from collections.abc import Iterator
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
    assert made.stderr == "eve is a reader; the token goes into DRUMBEAT_TOKEN\n"
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
