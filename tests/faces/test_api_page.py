"""The web page over HTTP: its files, its session, and what an action must carry."""

import html
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from drumbeat.server.page.routes import BUILT

from .api_house import House, house_in

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


@pytest.fixture
def browser(house: House) -> Iterator[httpx.Client]:
    """A client without the token, as a browser is."""
    with httpx.Client(base_url=house.url, timeout=20, trust_env=False) as client:
        yield client


def link(house: House) -> str:
    answer = house.http.post("/api/v1/page/links")
    assert answer.status_code == 201
    return answer.json()["path"]


@pytest.fixture
def opened(house: House, browser: httpx.Client) -> httpx.Client:
    assert browser.get(link(house)).status_code == 303
    return browser


@pytest.mark.feature("M3")
def test_link_leads_to_the_page_that_was_asked_for_and_to_no_other_site(house: House, browser: httpx.Client) -> None:
    def opens(to: str) -> str:
        return browser.get(link(house), params={"to": to}).headers["location"]

    assert opens("/ui/jobs/x?tab=metrics") == "/ui/jobs/x?tab=metrics"
    assert browser.get(link(house)).headers["location"] == "/ui/#opened"
    for foreign in ("https://evil.example/ui/", "//evil.example", "/api/v1/jobs", "/ui/../api", "/ui\\evil"):
        assert opens(foreign) == "/ui/"


@pytest.mark.feature("M3")
def test_session_says_which_server_it_is_of(house: House, opened: httpx.Client) -> None:
    session = opened.get("/api/v1/page/session").json()
    version = house.http.get("/api/v1/version").json()
    assert (session["server"], session["version"]) == (version["host"], version["version"])
    assert session["idle_stop_s"] >= 0


def action(house: House, opened: httpx.Client, **headers: str) -> httpx.Response:
    token = opened.get("/api/v1/page/session").json()["action_token"]
    given = {"Origin": house.url, "Drumbeat-Action": token, **headers}
    return opened.post("/api/v1/jobs/acted/archive", headers={key: value for key, value in given.items() if value})


@pytest.mark.feature("X1")
def test_page_is_sent_with_a_strict_policy_and_holds_no_script(browser: httpx.Client) -> None:
    for address in ("/ui/", "/ui/jobs/some-job?tab=metrics", "/ui/nowhere"):
        answer = browser.get(address)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "<script>" not in answer.text
        assert "style=" not in answer.text


@pytest.mark.feature("X1")
def test_styles_within_the_page_are_those_of_its_policy(browser: httpx.Client) -> None:
    answer = browser.get("/ui/")
    (style,) = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"style-src 'self' 'sha256-{digest}';" in answer.headers["content-security-policy"]


@pytest.mark.feature("M3", "X1")
def test_page_names_what_its_screen_asks_for_but_nothing_of_a_job_to_strangers(
    house: House, browser: httpx.Client
) -> None:
    name = house.submit("named")
    for tab in ("graph", "nothing"):  # A command has no graph: only who may read it learns that its logs come first.
        address = f"/ui/jobs/{name}?tab={tab}"
        known_to_strangers = preloads(browser.get(address).text)
        assert known_to_strangers == preloads(browser.get(f"/ui/jobs/other?tab={tab}").text.replace("other", name))
        assert browser.get(link(house)).status_code == 303
        assert preloads(browser.get(address).text) == [
            f"/api/v1/jobs/{name}", f"/api/v1/jobs/{name}/logs?tail=65536"
        ]  # fmt: skip
        browser.cookies.clear()


def test_page_writes_no_markup_of_its_address(browser: httpx.Client) -> None:
    answer = browser.get("/ui/compare", params={"job": ['"><script>', "b"], "text": "<b>"})
    assert "<b>" not in answer.text
    assert preloads(answer.text) == [
        "/api/v1/curves?job=%22%3E%3Cscript%3E&job=b&max_points=800", "/api/v1/compare?job=%22%3E%3Cscript%3E&job=b"
    ]  # fmt: skip


def preloads(text: str) -> list[str]:
    """Addresses of the API in a page's HTML."""
    return [html.unescape(one) for one in re.findall('<link rel="preload" as="fetch" crossorigin href="(.*?)">', text)]


def test_root_leads_to_the_page(browser: httpx.Client) -> None:
    for address in ("/", "/ui"):
        answer = browser.get(address)
        assert (answer.status_code, answer.headers["location"]) == (307, "/ui/")


def test_address_that_mlflow_prints_leads_to_experiments_without_a_token(browser: httpx.Client) -> None:
    answer = browser.get("/mlflow/")
    assert (answer.status_code, answer.headers["location"]) == (307, "/ui/experiments")
    assert browser.post("/mlflow/").status_code == 401


def test_assets_are_hashed_and_kept_by_browsers(browser: httpx.Client) -> None:
    files = sorted(BUILT.glob("assets/*"))
    assert any(file.suffix == ".js" for file in files)
    for file in files:
        answer = browser.get(f"/ui/assets/{file.name}")
        assert answer.content == file.read_bytes()
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert browser.get("/ui/assets/none.js").status_code == 404
    assert browser.get("/ui/assets/%2e%2e/%2e%2e/routes.py").status_code in (200, 404)
    assert "APIRouter" not in browser.get("/ui/assets/../../routes.py").text


@pytest.mark.feature("X1")
def test_first_scripts_are_small(browser: httpx.Client) -> None:
    """The main script and its imports; all that only some screens need is fetched when they are opened."""
    html = browser.get("/ui/").text
    scripts = re.findall(r'(?:src|rel="modulepreload" crossorigin href)="(/ui/assets/[^"]+\.js)"', html)
    sent = 0
    for script in scripts:
        with browser.stream("GET", script, headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            sent += len(b"".join(answer.iter_raw()))
    assert len(scripts) >= 3
    assert sent <= 45_000


def test_frame_of_a_pdf_has_neither_origin_nor_network(browser: httpx.Client) -> None:
    answer = browser.get("/ui/pdf-frame")
    (script,) = re.findall(r"<script>(.*)</script>", answer.text, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith(f"sandbox allow-scripts; default-src 'none'; script-src 'sha256-{digest}';")
    assert "frame-ancestors 'self'" in policy
    assert not [word for word in ("allow-same-origin", "connect-src", "unsafe", "http", "*") if word in policy]
    assert "</script" not in script.lower()
    assert "<!--" not in script


@pytest.mark.feature("M3")
def test_documentation_is_sent_to_browsers_and_nothing_beside_it(browser: httpx.Client) -> None:
    readme = browser.get("/ui/docs-files/README.md")
    assert readme.text == (ROOT / "README.md").read_text()
    assert readme.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "default-src 'none'" in readme.headers["content-security-policy"]
    for path, kind in (("docs/decisions/README.md", "text/markdown"), ("docs/images/page-job.png", "image/png")):
        answer = browser.get(f"/ui/docs-files/{path}")
        assert answer.content == (ROOT / path).read_bytes()
        assert answer.headers["content-type"].startswith(kind)
    for path in ("docs/none.md", "docs", "CHANGELOG.md", "docs/openapi.json", "docs/%2e%2e/LICENSE", "/etc/hosts"):
        assert browser.get(f"/ui/docs-files/{path}").status_code == 404


@pytest.mark.feature("X1")
def test_link_sets_a_strict_cookie_once(house: House, browser: httpx.Client) -> None:
    path = link(house)
    answer = browser.get(path)
    cookie = answer.headers["set-cookie"]
    assert answer.headers["location"] == "/ui/#opened"
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert browser.get("/api/v1/jobs").status_code == 200
    again = httpx.get(f"{house.url}{path}", trust_env=False)
    assert again.status_code == 410
    assert "set-cookie" not in again.headers


@pytest.mark.feature("X1")
def test_session_reads_for_its_own_origin_only(opened: httpx.Client) -> None:
    assert opened.get("/api/v1/status", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200
    for site in ("cross-site", "same-site"):
        assert opened.get("/api/v1/status", headers={"Sec-Fetch-Site": site}).status_code == 403


@pytest.mark.feature("X1")
def test_action_needs_its_token_and_its_origin(house: House, opened: httpx.Client) -> None:
    house.submit("acted")
    house.finish("acted")
    for headers in (
        {"Drumbeat-Action": ""}, {"Drumbeat-Action": "wrong"}, {"Origin": ""}, {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "same-site"},
    ):  # fmt: skip
        assert action(house, opened, **headers).status_code == 403, headers
    answer = action(house, opened)
    assert answer.status_code == 200
    assert answer.json()["archived"]


def test_session_is_asked_for_without_one(house: House) -> None:
    answer = house.http.get("/api/v1/page/session")
    assert answer.status_code == 404
    assert "drumbeat ui" in answer.json()["fix"]


def test_cookies_that_cannot_be_read_are_none(house: House, browser: httpx.Client) -> None:
    assert house.context.sessions
    for value in ("", "=", ";;;", "a=b=c;[", f"{house.context.sessions.cookie}=1.2.3"):
        assert browser.get("/api/v1/jobs", headers={"Cookie": value}).status_code == 401
