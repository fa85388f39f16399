"""Kubeconfigs, credentials and answers over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from drumbeat.engines.kubernetes.exec_plugin import VERSIONS, Plugin
from drumbeat.jobfile.compute.kubernetes import KubernetesCompute
from drumbeat.model.errors import EngineError, UnreachableError

from .identities import a_certificate, a_tls_front

pytestmark = pytest.mark.feature("C4")

PLUGIN = """\
#!/bin/sh
echo "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/asked"
echo run >> "$(dirname "$0")/runs"
n=$(wc -l < "$(dirname "$0")/runs")
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t'$((n))'"}}'
"""


class Handler(BaseHTTPRequestHandler):
    """Accepts one token; answers with what it was asked."""

    protocol_version = "HTTP/1.1"
    token = ""

    def do_GET(self) -> None:
        is_known = self.headers.get("Authorization") == f"Bearer {self.token}"
        content = {"path": self.path} if is_known else {"message": "Unauthorized"}
        body = json.dumps(content).encode()
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def connection(folder: Path, server: str, user: dict[str, Any], **keys: Any) -> Any:
    pytest.importorskip("lightkube", reason="needs lightkube: pip install 'drumbeat[kubernetes]'")
    from drumbeat.engines.kubernetes.connection import ClusterConnection

    config = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ml"}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(config))
    own = {"name": "rack", "type": "kubernetes", "kubeconfig": str(folder / "kubeconfig")}
    return ClusterConnection(KubernetesCompute.model_validate({**own, **keys}))


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    file = tmp_path / "plugin"
    file.write_text(PLUGIN)
    file.chmod(0o755)
    return file


def test_kubeconfig_gives_server_namespace_and_token(tmp_path: Path, server: str):
    Handler.token = "abc"
    made = connection(tmp_path, server, {"token": "abc"})
    assert made.namespace == "ml"
    assert made.server == ("127.0.0.1", int(server.rpartition(":")[2]))
    assert made.call("GET", "/api/v1/nodes", query={"limit": 5}) == {"path": "/api/v1/nodes?limit=5"}
    made.close()


def test_plugins_token_is_renewed_when_the_server_refuses_it(tmp_path: Path, server: str, plugin: Path):
    """As an EKS or GKE login that expired."""
    user = {"exec": {"apiVersion": VERSIONS[0], "command": "./plugin", "args": [], "env": []}}
    made = connection(tmp_path, server, user)
    Handler.token = "t1"
    assert made.call("GET", "/a") == {"path": "/a"}
    Handler.token = "t2"
    assert made.call("GET", "/b") == {"path": "/b"}
    assert made.call("GET", "/c") == {"path": "/c"}
    assert (tmp_path / "runs").read_text().count("run") == 2, "a token is kept as long as it is good"
    assert json.loads((tmp_path / "asked").read_text())["spec"] == {"interactive": False}
    Handler.token = "other"
    with pytest.raises(UnreachableError, match=r"doesn't accept the user's credentials.*Log in"):
        made.call("GET", "/d")
    made.close()


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "kubeconfig").read_text())
    change(config)
    (folder / "kubeconfig").write_text(json.dumps(config))


def test_context_and_namespace_that_a_person_switches_leave_a_connection_where_it_is(tmp_path: Path, server: str):
    """As with kubectx and kubens, on the account that the server runs under."""
    Handler.token = "abc"
    made = connection(tmp_path, server, {"token": "abc"})
    at = made.server
    assert (made.namespace, made.call("GET", "/a")) == ("ml", {"path": "/a"})

    def switch(config: dict[str, Any]) -> None:
        config["contexts"][0]["context"]["namespace"] = "other"
        config["clusters"].append({"name": "k2", "cluster": {"server": "http://127.0.0.1:9"}})
        config["contexts"].append({"name": "c2", "context": {"cluster": "k2", "user": "u", "namespace": "theirs"}})
        config["current-context"] = "c2"

    edit(tmp_path, switch)
    assert (made.namespace, made.server) == ("ml", at)
    Handler.token = "new"
    with pytest.raises(UnreachableError, match="doesn't accept the user's credentials"):
        made.call("GET", "/a")
    edit(tmp_path, lambda config: config["users"][0]["user"].update(token="new"))
    assert made.call("GET", "/b") == {"path": "/b"}, "a new login of the first context is read"
    assert (made.namespace, made.server) == ("ml", at)
    made.close()


def test_credentials_that_the_kubeconfig_has_anew_replace_a_plugin(tmp_path: Path, server: str, plugin: Path):
    """A plugin whose tokens are refused, and one that can't be run."""
    Handler.token = "abc"
    made = connection(tmp_path, server, {"exec": {"apiVersion": VERSIONS[0], "command": "./plugin"}})
    with pytest.raises(UnreachableError, match="doesn't accept the user's credentials"):
        made.call("GET", "/a")
    say = ["-c", 'echo \'{"status": {"token": "abc"}}\'']
    login = {"exec": {"apiVersion": VERSIONS[0], "command": "/bin/sh", "args": say}}
    edit(tmp_path, lambda config: config["users"][0].update(user=login))
    assert made.call("GET", "/b") == {"path": "/b"}
    assert (tmp_path / "runs").read_text().count("run") == 2
    made.close()

    made = connection(tmp_path, server, {"exec": {"apiVersion": VERSIONS[0], "command": "/no/such/plugin"}})
    with pytest.raises(EngineError, match="can't be run"):
        made.call("GET", "/c")
    edit(tmp_path, lambda config: config["users"][0].update(user={"token": "abc"}))
    assert made.call("GET", "/c") == {"path": "/c"}
    made.close()


def test_api_server_that_is_not_there_is_said_with_its_address(tmp_path: Path):
    made = connection(tmp_path, "http://127.0.0.1:9", {"token": "x"})
    with pytest.raises(UnreachableError, match=r"the Kubernetes API server at 127.0.0.1:9 doesn't answer: "):
        made.call("GET", "/a")
    made.close()


def test_kubeconfig_that_cant_be_used_says_so(tmp_path: Path, server: str):
    with pytest.raises(EngineError, match=r"Context 'prod' not found.*kubectl --kubeconfig FILE get pods"):
        _ = connection(tmp_path, server, {"token": "x"}, context="prod").namespace
    made = connection(tmp_path, server, {"client-certificate": "gone.pem", "client-key": "gone.key"})
    with pytest.raises(EngineError, match="No such file"):
        made.call("GET", "/a")


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        ("echo 'Your session has expired' >&2; exit 7", UnreachableError, "ended with exit code 7: Your session has"),
        ("echo '{}'", EngineError, "gave no token"),
        ("exec sleep 60", UnreachableError, "didn't answer within 0.2 s"),
    ],
)
def test_plugin_that_fails_is_said(tmp_path: Path, script: str, error: type[Exception], says: str):
    with pytest.raises(error, match=says):
        Plugin("/bin/sh", ("-c", script)).token(timeout_s=0.2 if "sleep" in script else 60)


def test_plugin_that_is_missing_or_speaks_another_version_is_refused():
    with pytest.raises(EngineError, match=r"can't be run: No such file or directory. Install it"):
        Plugin("/no/such/plugin").token()
    with pytest.raises(EngineError, match=r"speaks client.authentication.k8s.io/v1alpha1"):
        Plugin("x", version="client.authentication.k8s.io/v1alpha1").token()


def one_of(files: dict[str, dict[str, Any]], folder: Path) -> str:
    """Files with these contents, as `$KUBECONFIG` lists them, with one that is missing between them."""
    for name, content in files.items():
        (folder / name).mkdir()
        (folder / name / "config").write_text(json.dumps(content))
    return f"{folder}/none:".join(f"{folder / name}/config:" for name in files)


def test_several_kubeconfigs_are_one_and_the_first_to_name_something_has_it(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
):
    """As kubectl merges them."""
    Handler.token = "abc"
    (tmp_path / "token").write_text("abc")
    first = {
        "users": [{"name": "u", "user": {"tokenFile": "../token"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "ml"}}],
    }
    second = {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "another"}}],
        "contexts": [{"name": "c", "context": {"cluster": "another", "user": "u"}}],
    }
    made = connection(tmp_path, server, {}, kubeconfig=None)
    monkeypatch.setenv("KUBECONFIG", one_of({"first": first, "second": second}, tmp_path))
    assert made.namespace == "ml"
    assert made.call("GET", "/a") == {"path": "/a"}
    made.close()


def test_kubeconfigs_that_are_all_missing_are_said(tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/no:{tmp_path}/none")
    with pytest.raises(EngineError, match="/none not found"):
        _ = connection(tmp_path, server, {}, kubeconfig=None).namespace


def test_requests_go_through_the_clusters_proxy(tmp_path: Path, server: str):
    Handler.token = "abc"
    made = connection(tmp_path, "http://api.invalid:6443", {"token": "abc"})
    edit(tmp_path, lambda config: config["clusters"][0]["cluster"].update({"proxy-url": server}))
    assert made.call("GET", "/a") == {"path": "http://api.invalid:6443/a"}
    made.close()


def test_certificate_of_another_name_is_that_of_the_clusters_tls_server_name(tmp_path: Path, server: str):
    """As behind a tunnel to the API server."""
    certificate = a_certificate(tmp_path)
    Handler.token = "abc"
    with a_tls_front(server, certificate) as front:
        made = connection(tmp_path, front.replace("127.0.0.1", "localhost"), {"token": "abc"})
        trust = {"certificate-authority": certificate.file.name}
        edit(tmp_path, lambda config: config["clusters"][0]["cluster"].update(trust))
        with pytest.raises(UnreachableError, match="certificate"):
            made.call("GET", "/a")
        made.close()
        edit(tmp_path, lambda config: config["clusters"][0]["cluster"].update({"tls-server-name": "127.0.0.1"}))
        assert made.call("GET", "/a") == {"path": "/a"}
        made.close()
