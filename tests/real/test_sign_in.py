"""Sign-in by an OpenID Connect provider: `oidc-provider-mock` as a process, two users, a real server and command.

The provider rotates its keys, is down, slow, or has a wrong clock; and what it sends is forged.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from drumbeat.model.principal import Role
from tests.real.house import DRUMBEAT, House, a_house, until
from tests.real.started import a_process, free_ports

pytestmark = pytest.mark.feature("X7")

ROOT = Path(__file__).parents[2]
SETTINGS = """
issuer = "{issuer}"
name = "Example & Co"
client_id = "drumbeat"
client_secret_file = "secret"
ask = "the platform team"
check_every = "1s"
life = "2d"

[roles]
owner = ["admins"]
contributor = ["ml", "vision"]
reader = ["guests"]
"""
FAULTLESS = {
    "status": 0, "slow_s": 0, "clock_s": 0, "claims": {}, "alg": "", "device": True, "interval": 1, "hidden": [],
}  # fmt: skip


class Provider:
    """The mock as a process. A user is known to it by `user`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def test(self, what: str, body: Any = None) -> httpx.Response:
        answer = httpx.post(f"{self.url}/test/{what}", json=body or {}, timeout=30)
        answer.raise_for_status()
        return answer

    def set(self, **faults: Any) -> None:
        self.test("set", faults)

    def user(self, name: str, *groups: str, **claims: Any) -> None:
        about = {"preferred_username": name, "email": f"{name}@example.org", "groups": groups, **claims}
        httpx.put(f"{self.url}/users/{name}", json=about, timeout=30).raise_for_status()

    def revoke(self, name: str) -> None:
        httpx.post(f"{self.url}/users/{name}/revoke-tokens", timeout=30).raise_for_status()

    def seen(self, path: str) -> list[dict[str, Any]]:
        every = httpx.get(f"{self.url}/test/seen", timeout=30).json()
        return [one for one in every if one["path"] == path]


class Server:
    """A server with sign-in, and what its users do."""

    def __init__(self, house: House, provider: Provider) -> None:
        self.house, self.provider = house, provider
        self.url = house.client.status().url

    def browser(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60)

    def sign_in(self, browser: httpx.Client, user: str, to: str = "/ui/", **more: Any) -> httpx.Response:
        """Goes the whole way in a browser. Returns the last answer, without following it."""
        begun = browser.get("/ui/sign-in", params={"to": to, **more})
        assert begun.status_code == 303, begun.text
        return browser.get(self.allowed(begun.headers["location"], user))

    @staticmethod
    def allowed(url: str, user: str) -> str:
        """Has the user agree at the provider. Returns where the browser is sent back to."""
        agreed = httpx.post(url, data={"sub": user}, timeout=60)
        assert agreed.status_code == 302, agreed.text
        return agreed.headers["location"]

    def session(self, browser: httpx.Client) -> tuple[str, str]:
        """Returns the browser's user and role; an empty user where it has no session."""
        answer = browser.get("/api/v1/page/session")
        return (answer.json()["person"], answer.json()["role"]) if answer.status_code == 200 else ("", "")

    def command(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [DRUMBEAT, *words], env=_elsewhere(folder), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip

    def tokens(self, user: str) -> list[str]:
        return [one.kind for one in self.house.client.tokens() if one.person == user]


def _elsewhere(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DRUMBEAT_")}
    return {**kept, "XDG_CONFIG_HOME": str(folder), "NO_COLOR": "1", "COLUMNS": "120", "BROWSER": "true"}


@contextlib.contextmanager
def a_provider(folder: Path) -> Iterator[Provider]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "tests.support.oidc_provider", str(port)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with a_process(folder, command, environment) as log:
        provider = Provider(f"http://127.0.0.1:{port}")

        def answers() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{provider.url}/test/seen").status_code == 200
            return False

        until(answers, 120, f"the provider's start: {log.read_text()}")
        yield provider


@pytest.fixture(scope="module")
def real_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with a_provider(tmp_path_factory.mktemp("provider")) as provider:
        yield provider


@pytest.fixture(scope="module")
def real_server(real_provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("signing-in")
    (folder / "secret").write_text("the client's secret\n")
    (folder / "secret").chmod(0o600)
    (folder / "oidc.toml").write_text(SETTINGS.format(issuer=real_provider.url))
    with a_house(folder) as house:
        started = house.run("server", "start", "--idle-stop", "0", "--oidc", folder / "oidc.toml")
        assert started.returncode == 0, started.stderr
        yield Server(house, real_provider)


@pytest.fixture
def provider(real_provider: Provider) -> Provider:
    real_provider.set(**FAULTLESS)
    real_provider.user("ada", "ml", "cooks")
    real_provider.user("bob", "admins", "ml")
    real_provider.user("eve", "cooks")
    return real_provider


@pytest.fixture
def server(real_server: Server, provider: Provider) -> Iterator[Server]:
    yield real_server
    provider.set(**FAULTLESS)


def text_of(answer: httpx.Response) -> str:
    return re.sub(r"<[^>]+>", " ", answer.text).replace("&#x27;", "'").replace("&amp;", "&")


# --- browsers ---
def test_two_users_sign_in_with_the_roles_of_their_groups_and_come_back_where_they_were(
    server: Server,
) -> None:
    assert httpx.get(f"{server.url}/ui/sign-in/provider").json() == {"name": "Example & Co"}
    with server.browser() as ada, server.browser() as bob:
        back = server.sign_in(ada, "ada", to="/ui/runs?experiment=cifar&sort=-loss")
        assert (back.status_code, back.headers["location"]) == (303, "/ui/runs?experiment=cifar&sort=-loss")
        server.sign_in(bob, "bob")
        assert (server.session(ada), server.session(bob)) == (("ada", "contributor"), ("bob", "owner"))
        (asked,) = [one["args"] for one in server.provider.seen("/oauth2/authorize")][-2:-1]
        assert asked["code_challenge_method"] == "S256"
        assert len({asked["state"], asked["nonce"], asked["code_challenge"], ""}) == 4
        # The page's own rules hold for this session, too: an action needs its token.
        assert ada.post("/api/v1/stop", json={}).status_code == 403
        token = ada.get("/api/v1/page/session").json()["action_token"]
        refused = ada.post("/api/v1/stop", json={}, headers={"Drumbeat-Action": token, "Origin": server.url})
        assert "ada is a contributor here" in refused.json()["what"]


def test_cookies_of_a_sign_in_are_kept_from_scripts_and_other_sites(server: Server) -> None:
    with server.browser() as browser:
        begun = browser.get("/ui/sign-in")
        flow = begun.headers["set-cookie"].lower()
        assert all(word in flow for word in ("httponly", "samesite=lax", "path=/ui/sign-in"))
        back = browser.get(server.allowed(begun.headers["location"], "ada"))
        session = back.headers.get_list("set-cookie")
        assert any("samesite=strict" in one.lower() and "httponly" in one.lower() for one in session)
        assert any(one.startswith("drumbeat-sign-in=") and "max-age=0" in one.lower() for one in session)
        assert back.headers["referrer-policy"] == "no-referrer"


def test_user_without_a_mapped_group_is_refused_with_whom_to_ask_and_it_is_in_the_audit_log(server: Server) -> None:
    with server.browser() as eve:
        back = server.sign_in(eve, "eve")
        assert (back.status_code, server.session(eve)) == (403, ("", ""))
        assert "eve is in no group that may use this server" in text_of(back)
        assert "Ask the platform team." in text_of(back)
    with server.browser() as ada:
        server.sign_in(ada, "ada")
    refused = server.house.run("audit", "--refused").stdout
    assert re.search(r"eve .*SIGN-IN /page 403", refused), refused
    assert re.search(r"ada \(contributor\) +SIGN-IN /page 200", server.house.run("audit").stdout)


def test_role_changes_and_ends_take_effect_on_sessions_that_exist(server: Server, provider: Provider) -> None:
    provider.user("kim", "vision")
    with server.browser() as kim:
        server.sign_in(kim, "kim")
        assert server.session(kim) == ("kim", "contributor")
        provider.user("kim", "vision", "admins")
        until(lambda: server.session(kim) == ("kim", "owner"), what="the new role")
        provider.user("kim", "guests")
        until(lambda: server.session(kim) == ("kim", "reader"), what="the lower role")
        provider.user("kim", "cooks")
        until(lambda: server.session(kim) == ("", ""), what="the end")
        assert server.tokens("kim") == []
        provider.user("kim", "ml")
        server.sign_in(kim, "kim")
        assert server.session(kim) == ("kim", "contributor")
        provider.revoke("kim")
        until(lambda: server.session(kim) == ("", ""), what="the end of the session at the provider")
    assert re.search(r"kim .*SIGN-IN /ended 401", server.house.run("audit").stdout)


def test_provider_ends_a_session_by_back_channel_logout_and_nobody_else(server: Server, provider: Provider) -> None:
    def logout(token: str) -> int:
        return httpx.post(f"{server.url}/ui/sign-in/back-channel", data={"logout_token": token}, timeout=60).status_code

    with server.browser() as ada, server.browser() as bob:
        server.sign_in(ada, "ada")
        server.sign_in(bob, "bob")
        for forged in (
            {"aud": "another"},
            {"events": {}},
            {"nonce": "n"},
            {"iat": 1000},
            {"iss": "https://evil.example"},
        ):
            assert logout(provider.test("logout-token", {"sub": "ada", **forged}).text) == 400, forged
        assert logout(provider.test("logout-token").text) == 400
        provider.set(alg="none")
        assert logout(provider.test("logout-token", {"sub": "ada"}).text) == 400
        provider.set(alg="foreign")
        assert logout(provider.test("logout-token", {"sub": "ada"}).text) == 400
        provider.set(alg="")
        assert httpx.post(f"{server.url}/ui/sign-in/back-channel", data={}).status_code == 422
        assert server.session(ada)[0] == "ada"
        assert logout(provider.test("logout-token", {"sid": "sid-ada"}).text) == 200
        assert (server.session(ada), server.session(bob)[0]) == (("", ""), "bob")
        assert logout(provider.test("logout-token", {"sub": "bob"}).text) == 200
        assert server.session(bob) == ("", "")


# --- the provider has troubles ---
def test_keys_that_the_provider_rotates_are_found(server: Server, provider: Provider) -> None:
    for _ in range(2):
        with server.browser() as ada:
            assert server.sign_in(ada, "ada").status_code == 303
        provider.test("rotate")
    with server.browser() as ada:
        assert server.sign_in(ada, "ada").status_code == 303


def test_provider_that_is_down_or_slow_throws_nobody_out_and_is_said(server: Server, provider: Provider) -> None:
    log = server.house.home / "server.log"
    with server.browser() as ada, server.browser() as late:
        server.sign_in(ada, "ada")
        begun = late.get("/ui/sign-in").headers["location"]
        back = server.allowed(begun, "bob")
        for faults, said in (({"status": 503}, "answered 503"), ({"slow_s": 12}, "doesn't answer within 10 s")):
            provider.set(**{**FAULTLESS, **faults})
            answer = late.get(back)
            assert (answer.status_code, said in text_of(answer)) == (503, True), answer.text
            # The flow's cookie is gone, and the user begins anew.
            begun = late.get("/ui/sign-in").headers["location"]
            provider.set(**FAULTLESS)
            back = server.allowed(begun, "bob")
        provider.set(status=500)
        until(lambda: "sessions can't be checked, and go on" in log.read_text(), what="a check")
        assert server.session(ada) == ("ada", "contributor")
        provider.set(**FAULTLESS)
        assert late.get(back).status_code == 303


@pytest.mark.parametrize("clock_s", [-7200, 7200])
def test_wrong_clock_of_the_provider_is_named(server: Server, provider: Provider, clock_s: int) -> None:
    provider.set(clock_s=clock_s)
    with server.browser() as ada:
        said = text_of(server.sign_in(ada, "ada"))
        assert re.search(rf"its clock is 7\d\d\d s {'behind' if clock_s < 0 else 'ahead of'} this server's", said), said
        assert server.session(ada) == ("", "")


def test_groups_and_names_come_from_the_userinfo_where_the_token_has_none(server: Server, provider: Provider) -> None:
    provider.set(hidden=["groups", "preferred_username"])
    with server.browser() as bob:
        server.sign_in(bob, "bob")
        assert server.session(bob) == ("bob", "owner")


# --- attacks ---
def test_forged_state_foreign_browser_and_replayed_answers_sign_nobody_in(server: Server) -> None:
    with server.browser() as ada, server.browser() as victim:
        begun = ada.get("/ui/sign-in").headers["location"]
        back = server.allowed(begun, "ada")
        given = parse_qs(urlsplit(back).query)
        # Login CSRF: the victim's browser brings an answer that it didn't ask for, or to its own question.
        assert victim.get(back).status_code == 401
        victim.get("/ui/sign-in")
        assert victim.get(back).status_code == 401
        own = parse_qs(urlsplit(victim.get("/ui/sign-in").headers["location"]).query)["state"][0]
        stolen = {"code": given["code"][0], "state": own}
        assert victim.get("/ui/sign-in/callback", params=stolen).status_code in (401, 503)  # PKCE: of no use.
        assert server.session(victim) == ("", "")
        forged = {"code": given["code"][0], "state": given["state"][0] + "x"}
        assert ada.get("/ui/sign-in/callback", params=forged).status_code == 401

    with server.browser() as ada:
        cookie_before = ada.get("/ui/sign-in")
        flow = ada.cookies.get("drumbeat-sign-in")
        back = server.allowed(cookie_before.headers["location"], "ada")
        assert ada.get(back).status_code == 303
        replayed = httpx.get(back, cookies={"drumbeat-sign-in": flow or ""}, timeout=60)
        assert replayed.status_code == 401
        assert "set-cookie" not in {k for k in replayed.headers if "drumbeat-sign" not in replayed.headers[k]}
        torn = httpx.get(back, cookies={"drumbeat-sign-in": (flow or "")[:-2] + "00"}, timeout=60)
        assert torn.status_code == 401


@pytest.mark.parametrize(
    "faults",
    [
        {"alg": "none"},
        {"alg": "HS256"},
        {"alg": "foreign"},
        {"claims": {"aud": "another-app"}},
        {"claims": {"aud": ["another-app", "drumbeat"], "azp": "another-app"}},
        {"claims": {"iss": "https://evil.example"}},
        {"claims": {"nonce": "stolen"}},
        {"claims": {"nonce": None}},
        {"claims": {"exp": 1_000_000_000}},
        {"claims": {"exp": None}},
        {"claims": {"sub": None}},
        {"claims": {"sub": ["ada"]}},
    ],
    ids=str,
)
def test_id_token_that_is_not_for_this_sign_in_is_refused(
    server: Server, provider: Provider, faults: dict[str, Any]
) -> None:
    provider.set(**faults)
    with server.browser() as ada:
        back = server.sign_in(ada, "ada")
        assert (back.status_code, server.session(ada)) == (422, ("", "")), back.text
        assert "the ID token of Example & Co isn't valid" in text_of(back) or "usable" in text_of(back)


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/", "//evil.example", "/\\evil.example",
        "/ui\\..\\..//evil.example", "/ui/../..//evil.example",
        "javascript:alert(1)", "/ui/\r\nSet-Cookie: a=b", "/ui/sign-in", "ui/", "/uix", "",
    ],
)  # fmt: skip
def test_return_address_outside_of_the_page_leads_to_the_page(server: Server, to: str) -> None:
    with server.browser() as ada:
        back = server.sign_in(ada, "ada", to=to)
        assert (back.status_code, back.headers["location"]) == (303, "/ui/")


def test_another_provider_user_or_one_with_an_owners_name_does_not_become_somebody(
    server: Server, provider: Provider
) -> None:
    with server.browser() as browser:
        server.sign_in(browser, "ada")
        provider.user("mallory", "ml", preferred_username="ada")
        assert "another user of the provider has it" in text_of(server.sign_in(browser, "mallory"))
        provider.user("mallory", "admins", preferred_username=server.house.client.status().host and _user_of(server))
        assert server.sign_in(browser, "mallory").status_code == 403
        server.house.client.create_token("zoe", Role.OWNER)
        provider.user("mallory", "ml", preferred_username="zoe")
        said = text_of(server.sign_in(browser, "mallory"))
        assert "zoe can't sign in: an owner of this server made a token for it" in said
        provider.user("mallory", "ml", preferred_username="<b>x</b>")
        refused = server.sign_in(browser, "mallory")
        assert (refused.status_code, "<b>x" in refused.text) == (403, False)
        # Whoever is renamed at the provider stays who they are here.
        provider.user("ada", "ml", preferred_username="ada.lovelace")
        server.sign_in(browser, "ada")
        assert server.session(browser) == ("ada", "contributor")


def _user_of(server: Server) -> str:
    import pwd

    return pwd.getpwuid(server.house.server().uids().effective).pw_name


# --- drumbeat login ---
def test_command_signs_in_by_device_flow_its_token_is_listed_used_and_revoked(
    server: Server, provider: Provider, tmp_path: Path
) -> None:
    here, terminal = os.openpty()  # At a terminal, the provider counts without an option.
    process = subprocess.Popen(
        [DRUMBEAT, "login", server.url], env=_elsewhere(tmp_path), stdin=terminal,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    shown = process.stdout.readline()
    code = shown.split()[-1]
    assert f"user_code={code}" in shown
    provider.test("approve", {"user_code": code, "sub": "ada"})
    out, err = process.communicate(timeout=120)
    os.close(here)
    os.close(terminal)
    assert (process.returncode, err) == (0, ""), out
    assert "Example & Co says that you are ada; your role here is contributor" in out
    assert server.command(tmp_path, "list").stdout == "no jobs\n"
    assert "only owners may do this" in server.command(tmp_path, "server", "stop").stderr
    listed = [one for one in server.house.client.tokens() if one.person == "ada" and one.kind == "login"]
    (login,) = listed
    assert (login.expires_at is not None, login.used_at is not None, login.label) == (True, True, os.uname().nodename)
    assert login.id in server.house.run("token", "list").stdout
    assert server.house.run("token", "remove", "ada", "--id", login.id).returncode == 0
    refused = server.command(tmp_path, "list")
    assert (refused.returncode != 0, f"drumbeat login {server.url}" in refused.stderr) == (True, True), refused.stderr


def test_command_signs_in_by_a_browser_of_its_machine_and_logout_ends_the_token(server: Server, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [DRUMBEAT, "login", server.url, "--by", "browser"], env=_elsewhere(tmp_path), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    url = process.stdout.readline().split()[-1]
    code = process.stdout.readline().split()[-1]
    query = {key: one[0] for key, one in parse_qs(urlsplit(url).query).items()}
    with server.browser() as browser:
        page = server.sign_in(browser, "bob", **query)
        assert (page.status_code, server.session(browser)) == (200, ("", ""))
        assert code in page.text
        (link,) = re.findall(r'href="(http://127\.0\.0\.1:\d+/\?code=[^"]+)"', page.text)
        # Whoever reads the code without the secret of the command gets nothing, and it is used up.
        assert httpx.get(link.replace("code=", "none="), timeout=60).status_code == 404
        assert httpx.get(link, timeout=60).status_code == 200
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "your role here is owner" in out
    code_again = parse_qs(urlsplit(link).query)["code"][0]
    stolen = httpx.post(f"{server.url}/ui/sign-in/token", json={"code": code_again, "verifier": "x"}, timeout=60)
    assert stolen.status_code == 401
    assert "login" in server.tokens("bob")
    assert server.command(tmp_path, "logout").returncode == 0
    assert "login" not in server.tokens("bob")


def test_code_of_a_browser_is_of_no_use_without_the_secret_of_the_command(server: Server) -> None:
    with server.browser() as browser:
        page = server.sign_in(browser, "bob", port="40000", challenge="A" * 43)
        code = re.findall(r"code=([^\"]+)", page.text)[0]
        for verifier in ("", "A" * 43):
            body = {"code": code, "verifier": verifier}
            assert browser.post("/ui/sign-in/token", json=body).status_code == 401
    for wrong in (
        {"port": "80", "challenge": "A" * 43},
        {"port": "40000"},
        {"port": "40000@evil.example", "challenge": "A" * 43},
    ):
        assert httpx.get(f"{server.url}/ui/sign-in?{urlencode(wrong)}").status_code == 422


def test_denied_device_and_forged_handle_make_no_token(server: Server, provider: Provider) -> None:
    begun = httpx.post(f"{server.url}/ui/sign-in/device", timeout=60).json()

    def ask(handle: str) -> httpx.Response:
        return httpx.post(f"{server.url}/ui/sign-in/token", json={"handle": handle}, timeout=60)

    assert ask(begun["handle"]).status_code == 202
    assert ask(begun["handle"][:-1] + "0" * 2).status_code == 401
    provider.test("approve", {"user_code": begun["user_code"], "sub": "denied"})
    assert ask(begun["handle"]).status_code == 403
    other = httpx.post(f"{server.url}/ui/sign-in/device", timeout=60).json()
    provider.test("approve", {"user_code": other["user_code"], "sub": "eve"})
    assert "is in no group" in ask(other["handle"]).json()["what"]


def test_piped_token_and_links_of_owners_work_beside_the_provider(server: Server, tmp_path: Path) -> None:
    token = server.house.client.create_token("ci", Role.CONTRIBUTOR)
    done = subprocess.run(
        [DRUMBEAT, "login", server.url], env=_elsewhere(tmp_path), input=token.token, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with server.browser() as page:
        page.get(token.link)
        assert server.session(page) == ("ci", "contributor")


def test_sign_ins_live_through_a_kill_of_the_server(server: Server, provider: Provider) -> None:
    with server.browser() as ada:
        begun = ada.get("/ui/sign-in").headers["location"]
        with server.browser() as bob:
            server.sign_in(bob, "bob")
            process = server.house.server()
            process.send_signal(signal.SIGKILL)
            process.wait(60)
            settings = server.house.folder / "oidc.toml"
            started = server.house.run("server", "start", "--idle-stop", "0", "--oidc", settings)
            assert started.returncode == 0, started.stderr
            assert server.house.client.status().url == server.url
            assert server.session(bob) == ("bob", "owner")
            assert ada.get(server.allowed(begun, "ada")).status_code == 303
            provider.revoke("bob")
            until(lambda: server.session(bob) == ("", ""), what="the end")


def test_server_without_a_provider_offers_none_and_says_so(own_house: House, tmp_path: Path) -> None:
    assert own_house.run("server", "start").returncode == 0
    url = own_house.client.status().url
    assert httpx.get(f"{url}/ui/sign-in/provider").json() == {"name": ""}
    assert httpx.get(f"{url}/ui/sign-in").status_code == 404
    for path in ("device", "token", "back-channel"):
        assert httpx.post(f"{url}/ui/sign-in/{path}", json={}).status_code == 404
    done = subprocess.run(
        [DRUMBEAT, "login", url, "--by", "device"], env=_elsewhere(tmp_path), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "this server has no identity provider" in done.stderr
    assert own_house.client.status().url == url
    (own_house.home / "oidc.toml").write_text('issuer = "http://idp.example.org"\n')
    assert own_house.run("server", "stop").returncode == 0
    refused = own_house.run("server", "start", "--log-format", "text")
    assert "oidc.toml: issuer: without TLS" in refused.stderr, refused.stderr


def test_first_of_many_browsers_at_once_all_sign_in(server: Server) -> None:
    """A user with several browsers, all at once: each has a session of its own."""
    outcomes: list[int] = []

    def one() -> None:
        with server.browser() as browser:
            outcomes.append(server.sign_in(browser, "ada").status_code)

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [303] * 6
