"""Every kind of credential, used by a job for what it reads and what it leaves, and then looked for everywhere."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from drumbeat.model.errors import DrumbeatError
from drumbeat.model.programs import AGENT, SUPERVISOR

from .house import House, a_house, contents, until
from .ways_in import HERE, KINDS, Way, Ways, all_ways

pytestmark = [
    pytest.mark.feature("D1", "X4"),
    pytest.mark.xdist_group("stores"),
    pytest.mark.timeout(900),  # All of it is made once, for the first test.
]

LEAST = 12
"""So many characters of a secret are looked for even alone."""
SIGNED = re.compile(rb"(?:[?&]sig=|X-Amz-Signature=|X-Goog-Signature=)[A-Za-z0-9%+/]{16,}")
"""In a link that a store takes."""


@dataclass
class Told:
    """Everything that was said and written, by where."""

    ways: Ways
    house: House
    places: dict[str, list[bytes]] = field(default_factory=dict)

    def say(self, place: str, text: str | bytes) -> None:
        told = text.encode(errors="surrogateescape") if isinstance(text, str) else text
        self.places.setdefault(place, []).append(told)

    def type(self, *words: str | Path) -> str:
        """A command; what it printed is kept."""
        done = self.house.run(*words)
        self.say(f"`drumbeat {' '.join(map(str, words))}`", done.stdout + done.stderr)
        return done.stdout + done.stderr

    def ask(self, path: str) -> None:
        """Of the API, whatever it answers."""
        try:
            self.say(f"GET {path}", json.dumps(self.house.client.connection.call("GET", path)))
        except DrumbeatError as error:
            self.say(f"GET {path}", f"{error} {error!r}")

    def refused(self, place: str, ask: Callable[[], object]) -> None:
        with pytest.raises(DrumbeatError) as refused:
            ask()
        self.say(place, f"{refused.value} {refused.value!r} {refused.value.__cause__!r}")

    def keep_files(self, when: str) -> None:
        """Every file of the house: of the server, agents, supervisors, of nodes and of jobs, of the cache."""
        for file, told in contents(self.house.folder):
            self.say(f"{when}: {file.relative_to(self.house.folder)}", told)

    def keep_processes(self) -> list[str]:
        """Arguments of all processes of the house, and what all but the server have as environment."""
        server, names = self.house.client.status().pid, []
        for process in self.house.processes():
            with contextlib.suppress(psutil.Error):
                words = " ".join(process.cmdline())
                names.append(words)
                self.say(f"arguments of {process.pid}, {words[:80]}", words)
                if process.pid != server:  # It was started from the shell that the secrets stood in.
                    self.say(f"environment of {process.pid}, {words[:80]}", json.dumps(process.environ()))
        return names

    def where(self, wanted: set[bytes]) -> list[str]:
        return sorted(
            place for place, texts in self.places.items() if any(one in text for text in texts for one in wanted)
        )


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("ns")
    (folder / "house").mkdir()
    with all_ways(folder / "stores") as ways, a_house(folder / "house") as house:
        house.environment |= {**ways.certificate.trusted, "DRUMBEAT_CACHE": str(house.folder / "cache")}
        found = Told(ways, house)
        make_datastores(found)
        run_a_job(found)
        try_wrong_ones(found)
        refuse_an_address(found)
        ask_for_everything(found)
        found.keep_files("at the end")
        yield found


def make_datastores(told: Told) -> None:
    """As users do: secrets stand in the environment of their shell, which the first command starts the server from."""
    for way in told.ways.by_kind.values():
        for key, secret in way.right.items():
            told.house.environment[variable(key, secret)] = secret
    for kind, way in told.ways.by_kind.items():
        assert "the store answers" in told.type("datastore", "create", "-f", datastore_file(told, kind, way, way.right))


def datastore_file(told: Told, name: str, way: Way, credentials: dict[str, str]) -> Path:
    file = told.house.folder / f"{name}.yml"
    named = {key: f"env:{variable(key, secret)}" for key, secret in credentials.items()}
    file.write_text(json.dumps({"name": name, **way.keys, "credentials": named}))
    return file


def variable(key: str, secret: str) -> str:
    return f"{key.upper()}_{hash(secret) & 0xFFFFFFFF:x}"


def run_a_job(told: Told) -> None:
    """It reads from every store, and writes to each that can be written. It is looked at while it runs."""
    go = told.house.folder / "go"
    writable = [kind for kind, way in told.ways.by_kind.items() if way.is_writable]
    inputs = {title(kind): {"path": f"azureml://datastores/{kind}/paths/in"} for kind in KINDS}
    outputs = {title(kind): {"path": f"azureml://datastores/{kind}/paths/out/${{{{name}}}}"} for kind in writable}
    reads = " ".join(f"${{{{inputs.{title(kind)}}}}}/a.csv" for kind in KINDS)
    writes = "".join(f" && cp all ${{{{outputs.{title(kind)}}}}}/all.csv" for kind in writable)
    command = f"cat {reads} | tee all; env; until [ -e {go} ]; do sleep 0.1; done; true{writes}"
    file = told.house.job_file(
        "reads", command=json.dumps(command), inputs=json.dumps(inputs), outputs=json.dumps(outputs), code="."
    )
    told.type("plan", file)
    told.type("run", file, "--name", "reads", "--detach")
    until(lambda: "http-query" in told.house.logs("reads").get(0, ""), 120, "what the rank read")
    names = told.keep_processes()
    assert any("until [ -e" in words for words in names)
    assert all(any(program in words for words in names) for program in (AGENT, SUPERVISOR))
    told.keep_files("while it ran")
    go.touch()
    until(lambda: told.house.client.get("reads").has_ended, 120, "the end of the job")
    until(lambda: {one.place for one in told.house.client.get("reads").outputs} == {"in_place"}, 120, "publishing")
    assert told.house.client.get("reads").state == "completed", told.house.client.get("reads").sentence
    said = told.house.logs("reads")[0]
    assert [line for line in said.splitlines() if line in KINDS] == list(KINDS)
    told.say("the log", said)
    for kind in writable:
        assert told.house.client.list_files(f"azureml://datastores/{kind}/paths/out/reads").files[0].path == "all.csv"


def try_wrong_ones(told: Told) -> None:
    """Refused; and kept all the same: then lists are refused, and data that lies there."""
    client = told.house.client
    for kind, way in told.ways.by_kind.items():
        name, place = f"wrong-{kind}", f"azureml://datastores/wrong-{kind}/paths/in"
        made = {"name": name, **way.keys, "credentials": way.wrong}
        told.refused(f"{name} made", lambda made=made: client.create_datastore(made))
        client.create_datastore(made, check=False)
        told.refused(f"{name} listed", lambda place=place: client.list_files(place))
        told.refused(f"{name} named", lambda place=place, kind=kind: client.create_data({"name": kind, "path": place}))


def refuse_an_address(told: Told) -> None:
    """With the signature in it: nothing of it goes to the server."""
    way = told.ways.by_kind["azure-sas"]
    url = f"{way.keys['endpoint']}/{way.keys['account_name']}/{way.keys['container_name']}/{HERE}"
    file = told.house.folder / "stores-words" / "job.yml"
    file.parent.mkdir()
    file.write_text(
        f"command: echo\ncode: .\ninputs: {{data: {{path: '{url}?{way.right['sas_token']}', type: uri_file}}}}\n"
    )
    said = told.type("run", file)
    file.unlink()  # Theirs, and told as what it is.
    assert "`sig=…` in this URL is a credential" in said
    assert "job.yml:3" in said
    told.say("data list", told.house.run("data", "list", f"{url}?{way.right['sas_token']}").stderr)


def ask_for_everything(told: Told) -> None:
    for words in (
        ("show", "reads"),
        ("show", "reads", "--json"),
        ("datastore", "list"),
        ("datastore", "list", "--json"),
    ):
        told.type(*words)
    for name in (*KINDS, *(f"wrong-{kind}" for kind in KINDS)):
        told.ask(f"/datastores/{name}")
    for path in ("/datastores", "/jobs", "/jobs/reads", "/jobs/reads/plan", "/jobs/reads/story", "/data", "/computes"):
        told.ask(path)


def title(kind: str) -> str:
    return kind.replace("-", "_")


# --- what must hold ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
def test_no_credential_is_anywhere_in_what_was_said_or_written(told: Told, kind: str):
    assert len(told.ways.secrets(kind)) >= 2
    assert told.where(forms(told.ways.secrets(kind))) == []


def test_no_link_that_a_store_takes_is_anywhere_in_what_was_said_or_written(told: Told):
    assert [place for place, texts in told.places.items() if any(map(SIGNED.search, texts))] == []


def test_all_that_could_tell_was_looked_at(told: Told):
    places = "\n".join(told.places)
    for one in (
        "drumbeat.db", "server.log", "token", "/enrolment.json", "story.jsonl", "plan.json", "keeper", "0.log",
        "cache/data/files", "environment of", "GET /datastores/gcs", "home/nodes/reads.1/0", "snapshots",
    ):  # fmt: skip
        assert one in places, f"nothing was kept of {one}"
    assert told.where({b"http-query\n"}) != []


SECRET = 'Th1s/is+a=secret&of "many" letters'


@pytest.mark.parametrize(
    "text",
    [
        f"key={SECRET};",
        SECRET[: len(SECRET) // 2],
        f"…{SECRET[len(SECRET) // 2 :]}",
        json.dumps({"key": SECRET}),
        f"?sig={urllib.parse.quote(SECRET, safe='')}",
        f"?sig={urllib.parse.quote_plus(SECRET)}",
        SECRET.encode().hex(),
        *(base64.b64encode(f"{before}{SECRET}".encode()).decode() for before in ("", "a", "ab", "abc:")),
    ],
)
def test_a_secret_would_be_found_in_each_of_its_forms(text: str):
    assert any(form in text.encode() for form in forms((SECRET,)))


def forms(hidden: tuple[str, ...]) -> set[bytes]:
    """The ways in which a secret, or a half of it, may stand somewhere."""
    return {form for one in hidden for part in halves(one) for form in written(part)}


def halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [text, *(half for half in (text[:middle], text[middle:]) if len(half) >= LEAST)]


def written(text: str) -> Iterator[bytes]:
    raw = text.encode()
    yield from (raw, raw.hex().encode(), raw.hex().upper().encode(), json.dumps(text).strip('"').encode())
    yield from (urllib.parse.quote(text, safe="").encode(), urllib.parse.quote_plus(text).encode())
    # Inside of something longer, base64 has it in one of three forms.
    for before in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(b"\0" * before + raw).rstrip(b"=")
            yield whole[4 if before else 0 : -2]
