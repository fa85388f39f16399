"""A server for a team: TLS at its port for users, sign-in by a fingerprint, set-up by one command in a namespace."""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from drumbeat.engines.netlab.lab import Lab
from drumbeat.server.access.certificate_authority import Authority
from tests.real.house import DRUMBEAT, House, until
from tests.real.places import BARE_PYTHON
from tools.sshlab import missing, ssh_lab

pytestmark = pytest.mark.feature("X7")


def handshake(url: str, context: ssl.SSLContext) -> tuple[str, str]:
    """Returns the protocol and the serial number of the server's certificate."""
    import socket

    place = urlsplit(url)
    with (
        socket.create_connection((place.hostname, place.port or 0), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname=place.hostname) as encrypted,
    ):
        return encrypted.version() or "", str((encrypted.getpeercert() or {}).get("serialNumber"))


def issue(authority: Authority, folder: Path) -> None:
    """Writes a new certificate and its key, as whatever renews them does."""
    pem = authority.issue(["127.0.0.1", "localhost"], datetime.now(UTC), timedelta(days=1)).pem
    begin = pem.index(b"-----BEGIN CERTIFICATE")
    for name, part in (("key.pem", pem[:begin]), ("cert.pem", pem[begin:])):
        (folder / f".{name}").write_bytes(part)
        (folder / f".{name}").replace(folder / name)


def test_users_call_by_tls_with_given_files_which_are_renewed_without_restart(own_house: House, tmp_path: Path) -> None:
    house = own_house
    authority = Authority.load_or_create(tmp_path / "our-ca.pem", datetime.now(UTC))
    issue(authority, tmp_path)
    files = "--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")
    missing = house.run(
        "server", "start", "--tls-cert", str(tmp_path / "none.pem"), "--tls-key", str(tmp_path / "key.pem")
    )
    assert (missing.returncode, "the file can't be read" in missing.stderr) == (4, True), missing.stderr
    started = house.run("server", "start", "--idle-stop", "0", *files)
    assert started.returncode == 0, started.stderr
    url = started.stdout.split()[2]
    assert url.startswith("https://127.0.0.1:")
    trusting = ssl.create_default_context(cadata=authority.pem)
    protocol, before = handshake(url, trusting)
    assert protocol == "TLSv1.3"
    (tmp_path / "cert.pem").write_text("half a certificate")
    assert handshake(url, trusting)[1] == before
    issue(authority, tmp_path)
    assert handshake(url, trusting)[1] != before

    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, OSError)):
        handshake(url, old)
    with pytest.raises(httpx.TransportError):
        httpx.get(url.replace("https:", "http:"), trust_env=False)

    token = (house.home / "token").read_text().strip()
    environment = {**os.environ, "DRUMBEAT_SERVER": url, "DRUMBEAT_TOKEN": token, "NO_COLOR": "1"}
    asked = [DRUMBEAT, "list"]
    unknown = subprocess.run(asked, env=environment, capture_output=True, text=True, check=False)
    assert unknown.returncode == 4, unknown
    trusted = {**environment, "SSL_CERT_FILE": str(tmp_path / "public.pem")}
    (tmp_path / "public.pem").write_text(authority.pem)
    assert subprocess.run(asked, env=trusted, capture_output=True, text=True, check=False).stdout == "no jobs\n"
    assert house.run("run", "--set", "code=null", "-q", "--", "true").returncode == 0  # Its agent calls by the socket.


def test_login_trusts_the_fingerprint_that_it_was_given_and_keeps_the_token(own_house: House, tmp_path: Path) -> None:
    house = own_house
    started = house.run("server", "start", "--tls", "own", "--idle-stop", "0")
    assert started.returncode == 0, started.stderr
    url, pin = started.stdout.split()[2], next(one for one in started.stdout.split() if one.startswith("sha256:"))
    again = house.run("server", "start", "--tls", "own")
    assert (again.returncode, "the server runs already, without --tls own" in again.stderr) == (1, True)

    kept = {name: value for name, value in os.environ.items() if not name.startswith("DRUMBEAT_")}
    elsewhere = {**kept, "XDG_CONFIG_HOME": str(tmp_path / "config"), "NO_COLOR": "1"}

    def drumbeat(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [DRUMBEAT, *words], env=elsewhere, input=stdin, capture_output=True, text=True, check=False
        )

    token = house.client.create_token("eve", "contributor").token
    told = drumbeat("login", url, stdin=token).stderr
    assert f"drumbeat login {url} --fingerprint {pin}" in told
    assert "and not sha256:00" in drumbeat("login", url, "--fingerprint", "sha256:00", stdin=token).stderr
    refused = drumbeat("login", url, "--fingerprint", pin, stdin="wrong")
    assert (refused.returncode, "that token is wrong" in refused.stderr) == (1, True)
    assert "the token could be read on the way" in drumbeat("login", "http://192.0.2.1:80", stdin=token).stderr
    assert not (tmp_path / "config").exists()

    signed_in = drumbeat("login", url, "--fingerprint", pin.upper().replace("SHA256:", ""), stdin=token)
    assert signed_in.returncode == 0, signed_in.stderr
    (file,) = (tmp_path / "config" / "drumbeat").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert drumbeat("list").stdout == "no jobs\n"
    assert "only owners may do this" in drumbeat("server", "stop").stderr
    with httpx.Client(
        verify=ssl.create_default_context(cadata=httpx.get(f"{url}/ui/ca.pem", verify=False).text)
    ) as page:
        opened = page.get(house.client.token_link("eve").path)
        assert "; Secure" in opened.headers["set-cookie"]
        assert page.get(f"{url}/api/v1/page/session").json()["person"] == "eve"
    assert drumbeat("logout").stdout == f"{url} and its token are forgotten here\n"
    assert drumbeat("logout").returncode == 1


MACHINE = """
set -e
for d in etc var/lib root; do
    mkdir -p "$OVER/$MACHINE/$d/upper" "$OVER/$MACHINE/$d/work"
    mount -t overlay overlay \
        -o "lowerdir=/$d,upperdir=$OVER/$MACHINE/$d/upper,workdir=$OVER/$MACHINE/$d/work" "/$d"
done
chmod 711 /root
"$DRUMBEAT" server init --for-team --name localhost --host 127.0.0.1 --port "$PORT" > "$OVER/told"
install -d -o drumbeat -g drumbeat -m 700 /var/lib/drumbeat
command=$(sed -n 's/^ExecStart=//p' /etc/systemd/system/drumbeat.service)
cd /
export HOME=/var/lib/drumbeat DRUMBEAT_HOME=/var/lib/drumbeat
as="setpriv --reuid drumbeat --regid drumbeat --clear-groups"
start() {
    $as $command &
    server=$!
    trap 'kill $server' EXIT
    while [ ! -e /var/lib/drumbeat/server.json ]; do kill -0 $server; sleep 0.1; done
}
by() { person=$1; shift; env -u DRUMBEAT_HOME XDG_CONFIG_HOME="$OVER/config-$person" "$DRUMBEAT" "$@"; }
"""
"""What each of the scripts below begins with: a machine whose folders are its own, set up by one command."""

SIGN_IN = """
start
print=$($as "$DRUMBEAT" server status | awk '/fingerprint/ { print $2 }')
for person in ada bob; do
    $as "$DRUMBEAT" token create $person > "$OVER/$person"
    by $person login "https://localhost:$PORT" --fingerprint "$print" < "$OVER/$person"
done
"""

SET_UP = f"""{MACHINE}{SIGN_IN}
by ada run --name adas --detach --set code=null -- sleep 300
by bob cancel adas > "$OVER/refused" 2>&1 && exit 9
by ada cancel adas --wait > "$OVER/canceled" 2>&1 || true
$as "$DRUMBEAT" audit --refused > "$OVER/audit"
"""

FIRST_MACHINE = f"""{MACHINE}
install -o drumbeat -g drumbeat -m 600 "$OVER/hosts/key" /var/lib/drumbeat/rack-key
install -d -o drumbeat -g drumbeat -m 700 "$OVER/backups"
{SIGN_IN}
$as "$DRUMBEAT" compute create -f "$OVER/rack.yml"
for person in ada bob; do
    by $person run --name ${{person}}s --detach --set compute=rack --set code=null -- \\
        "$COUNTS $OVER/$person.count $OVER/go"
done
while [ ! -s "$OVER/ada.count" ] || [ ! -s "$OVER/bob.count" ]; do kill -0 $server; sleep 0.2; done
by bob cancel adas > "$OVER/refused" 2>&1 && exit 9
by ada cancel bobs >> "$OVER/refused" 2>&1 && exit 9
$as "$DRUMBEAT" server backup "$OVER/backups/team.tar"
kill -9 $server
trap - EXIT
"""

SECOND_MACHINE = f"""{MACHINE}
$as "$DRUMBEAT" server restore "$OVER/backups/team.tar" --take-over 2> "$OVER/not-as-user" && exit 9
"$DRUMBEAT" server restore "$OVER/backups/team.tar" --take-over > "$OVER/restored"
start
touch "$OVER/go"
for person in ada bob; do
    by $person wait ${{person}}s --timeout 120
    by $person show ${{person}}s --json > "$OVER/$person.json"
done
"""


def can_overlay(folder: Path) -> bool:
    """Whether this user may mount an overlay in a namespace of its own."""
    for name in ("lower", "upper", "work", "here"):
        (folder / name).mkdir()
    layers = ",".join(f"{name}dir={folder}/{name}" for name in ("lower", "upper", "work"))
    mount = f"mount -t overlay overlay -o {layers} {folder}/here"
    return subprocess.run(["unshare", "--mount", "sh", "-c", mount], capture_output=True, check=False).returncode == 0


def run_on(machine: str, script: str, over: Path, **more: str) -> None:
    """Runs a script on a machine that is gone when it ends, with all of its processes."""
    environment = {
        **os.environ, "OVER": str(over), "MACHINE": machine, "PORT": "18471", "DRUMBEAT": DRUMBEAT, "NO_COLOR": "1",
        **more,
    }  # fmt: skip
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script],
        env=environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def move_this_machine(lab: Lab) -> None:
    """Gives this machine another address in the lab: nothing answers at the one that agents know."""
    made = lab.blueprint()
    *_, other = ipaddress.ip_network(f"{made['gateway']}/{made['prefix']}", strict=False).hosts()
    for change, address in (("del", made["gateway"]), ("add", other)):
        subprocess.run(["ip", "address", change, f"{address}/{made['prefix']}", "dev", made["interface"]], check=True)


@pytest.fixture
def over(tmp_path: Path) -> Iterator[Path]:
    """A folder for what machines write, which other users may pass through."""
    if os.geteuid() != 0 or not can_overlay(tmp_path):
        pytest.skip("needs root and overlay mounts in a namespace")
    folder = Path("/dev/shm") / f"drumbeat-{os.getpid()}"
    folder.mkdir(mode=0o711)
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=False)


@pytest.mark.thorough
def test_one_command_sets_a_server_up_on_which_two_people_run_and_keep_to_their_own_jobs(over: Path) -> None:
    run_on("one", SET_UP, over)
    told = (over / "told").read_text()
    assert "https://localhost:18471" in told
    assert "token create NAME --role contributor" in told
    refused = (over / "refused").read_text()
    assert "job adas is ada's, and bob, a contributor here, changes only their own jobs" in refused
    assert "canceled" in (over / "canceled").read_text()
    audit = (over / "audit").read_text().rstrip()
    assert audit.endswith("bob (contributor)  POST /api/v1/jobs/adas/cancel 403 (of ada)")
    assert "drumbeat:" in (over / "one/etc/upper/passwd").read_text()
    assert "drumbeat:" not in Path("/etc/passwd").read_text()


@pytest.mark.thorough
@pytest.mark.feature("U4")
@pytest.mark.timeout(900)
def test_jobs_on_ssh_hosts_go_on_when_their_server_is_restored_on_another_machine_at_another_address(
    over: Path,
) -> None:
    if why := missing():
        pytest.skip(why)
    (over / "hosts").mkdir(mode=0o711)
    with ssh_lab(over / "hosts", "host", 2) as hosts:
        spec = {
            "name": "rack", "type": "ssh", "user": "root", "identity_file": "/var/lib/drumbeat/rack-key",
            "hosts": [{"address": hosts.address(name), "name": name, "cpus": 4} for name in hosts.names],
            "options": [f"UserKnownHostsFile={hosts.folder}/known_hosts"],
            "python": BARE_PYTHON, "programs": str(Path(sys.executable).parent),
        }  # fmt: skip
        (over / "rack.yml").write_text(json.dumps(spec))
        counts = over / "counts.sh"
        counts.write_text("i=0; while [ ! -e $2 ]; do i=$((i+1)); echo $i > $1; sleep 0.1; done\n")
        run_on("one", FIRST_MACHINE, over, COUNTS=f"sh {counts}")
        refused = (over / "refused").read_text()
        assert "job adas is ada's" in refused
        assert "job bobs is bob's" in refused
        seen = (over / "ada.count").read_text()
        until(lambda: (over / "ada.count").read_text() not in ("", seen), 30, "the rank goes on without a server")
        move_this_machine(hosts.lab)
        run_on("two", SECOND_MACHINE, over)
        assert "Restore it as root" in (over / "not-as-user").read_text()
        assert "unfinished then: adas and bobs" in (over / "restored").read_text()
        for person in ("ada", "bob"):
            job = json.loads((over / f"{person}.json").read_text())
            assert (job["state"], job["attempt"], job["round"]) == ("completed", 1, 1), job["sentence"]


def test_set_up_of_an_image_writes_a_unit_that_systemd_accepts_and_its_user(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    words = "server", "init", "--for-team", "--name", "train.example.org", "--root", str(tmp_path)
    done = subprocess.run([DRUMBEAT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "etc/passwd").read_text().startswith("drumbeat:x:")
    unit = tmp_path / "etc/systemd/system/drumbeat.service"
    assert f"ExecStart={sys.executable} -m drumbeat.server" in unit.read_text()
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert "drumbeat.service:" not in verified.stderr, verified.stderr
    assert subprocess.run([DRUMBEAT, *words], capture_output=True, check=False).returncode == 0
    other = subprocess.run([DRUMBEAT, *words, "--allow-host", "b.org"], capture_output=True, text=True, check=False)
    assert (other.returncode, "there is such a unit" in other.stderr) == (1, True)
    assert subprocess.run([DRUMBEAT, *words, "--allow-host", "b.org", "--replace"], check=False).returncode == 0
    assert "--allow-host b.org" in unit.read_text()


def test_server_on_all_addresses_without_a_name_warns_when_it_is_started(own_house: House) -> None:
    house = own_house
    started = house.run("server", "start", "--host", "0.0.0.0", "--allow-remote", "--tls", "own")
    assert started.returncode == 0, started.stderr
    assert "refuses calls from other machines until it knows" in started.stderr
    until(lambda: house.client.status().ca_fingerprint)
