"""The server's certificates: what checks them strictly believes them, and when they are made anew."""

import shutil
import ssl
import stat
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from drumbeat.model.errors import EngineError
from drumbeat.server.access.certificate import LIFE as SERVERS_LIFE
from drumbeat.server.access.certificate import tls_context
from drumbeat.server.access.certificate_authority import LIFE, SKEW, Authority, Issued

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """Both ends of a real one, in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [ours, theirs]
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass


def strict(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=authority.pem)
    return context


@pytest.mark.feature("X1", "X4")
@pytest.mark.parametrize("name", ["10.0.0.7", "fd00::7", "node-7.cluster"])
def test_a_strict_client_believes_the_server_at_its_addresses(tmp_path: Path, name: str) -> None:
    authority = Authority.load_or_create(tmp_path / "ca.pem", NOW)
    server = tls_context(authority.issue(["10.0.0.7", "fd00::7", "node-7.cluster"], NOW, SERVERS_LIFE))
    handshake(strict(authority), server, name)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"IP address mismatch|Hostname mismatch"):
        handshake(strict(authority), server, "10.0.0.8" if name[0].isdigit() else "other.cluster")


@pytest.mark.feature("X4")
def test_old_tls_is_not_spoken(tmp_path: Path) -> None:
    context = tls_context(Authority.load_or_create(tmp_path / "ca.pem", NOW).issue(["10.0.0.7"], NOW, SERVERS_LIFE))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.feature("X1", "X4")
def test_no_other_certificate_passes_for_the_server(tmp_path: Path) -> None:
    authority, other = (
        Authority.load_or_create(tmp_path / "ca.pem", NOW),
        Authority.load_or_create(tmp_path / "other.pem", NOW),
    )
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(strict(authority), tls_context(other.issue(["10.0.0.7"], NOW, SERVERS_LIFE)), "10.0.0.7")
    # What the server's own certificate signs is worth nothing.
    issued = authority.issue(["10.0.0.7"], NOW, SERVERS_LIFE)
    fake = Authority(x509.load_pem_x509_certificate(issued.pem), _key_of(issued))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(strict(authority), tls_context(fake.issue(["10.0.0.7"], NOW, SERVERS_LIFE)), "10.0.0.7")


def _key_of(issued: Issued) -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(issued.pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


@pytest.mark.feature("X1", "X4")
def test_openssl_itself_finds_nothing_wrong(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed: apt-get install openssl")
    authority = Authority.load_or_create(tmp_path / "ca.pem", NOW)
    (tmp_path / "server.pem").write_bytes(authority.issue(["10.0.0.7", "node-7.cluster"], NOW, SERVERS_LIFE).pem)
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca.pem", "server.pem"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (0, "server.pem: OK\n"), said


def test_expired_certificate_is_refused_by_the_client(tmp_path: Path) -> None:
    long_ago = NOW - SERVERS_LIFE - DAY
    authority = Authority.load_or_create(tmp_path / "ca.pem", long_ago)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(strict(authority), tls_context(authority.issue(["10.0.0.7"], long_ago, SERVERS_LIFE)), "10.0.0.7")
    handshake(strict(authority), tls_context(authority.issue(["10.0.0.7"], NOW, SERVERS_LIFE)), "10.0.0.7")


def test_a_clock_that_is_behind_is_no_reason_to_refuse(tmp_path: Path) -> None:
    """The client's clock can't be put back here, so the server's is ahead."""
    ahead = NOW + SKEW - timedelta(hours=1)
    authority = Authority.load_or_create(tmp_path / "ca.pem", ahead)
    handshake(strict(authority), tls_context(authority.issue(["10.0.0.7"], ahead, SERVERS_LIFE)), "10.0.0.7")


def test_a_certificate_is_due_when_a_third_of_its_life_is_left(tmp_path: Path) -> None:
    issued = Authority.load_or_create(tmp_path / "ca.pem", NOW).issue(["10.0.0.7"], NOW, SERVERS_LIFE)
    third = (SERVERS_LIFE + SKEW) / 3
    assert not issued.is_due(NOW)
    assert not issued.is_due(issued.end - third - timedelta(seconds=1))
    assert issued.is_due(issued.end - third)
    assert issued.is_due(issued.begin - timedelta(seconds=1)), "the clock was put back"


def test_authority_is_created_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    first = Authority.load_or_create(path, NOW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    assert Authority.load_or_create(path, NOW + DAY).pem == first.pem
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    life = first.certificate.not_valid_after_utc - first.certificate.not_valid_before_utc
    assert life == LIFE + SKEW
    limits = first.certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (limits.critical, limits.value.ca, limits.value.path_length) == (True, True, 0)


def test_servers_that_come_at_the_same_moment_agree(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def come(_: int) -> str:
        together.wait(20)
        return Authority.load_or_create(tmp_path / "ca.pem", NOW).pem

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(come, range(8)))) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["ca.pem"]


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    authority = Authority.load_or_create(tmp_path / "ca.pem", NOW)
    issued = authority.issue(["10.0.0.7"], NOW + LIFE - DAY, SERVERS_LIFE)
    assert issued.end == authority.certificate.not_valid_after_utc
    with pytest.raises(EngineError, match="has expired"):
        authority.issue(["10.0.0.7"], NOW + LIFE, SERVERS_LIFE)


def _damaged(path: Path) -> bytes:
    return path.read_bytes()[:-200]


def _of_two(path: Path) -> bytes:
    other = path.with_name("other.pem")
    Authority.load_or_create(other, NOW)
    begin = b"-----BEGIN CERTIFICATE-----"
    return path.read_bytes().partition(begin)[0] + begin + other.read_bytes().partition(begin)[2]


def _of_a_server(path: Path) -> bytes:
    return Authority.load_or_create(path, NOW).issue(["10.0.0.7"], NOW, SERVERS_LIFE).pem


def _without_certificate(_path: Path) -> bytes:
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize("content", [_damaged, _of_two, _of_a_server, _without_certificate, lambda _path: b""])
def test_a_file_that_is_not_an_authority_is_refused_and_left_alone(tmp_path: Path, content) -> None:
    path = tmp_path / "ca.pem"
    Authority.load_or_create(path, NOW)
    path.write_bytes(content(path))
    before = path.read_bytes()
    with pytest.raises(EngineError, match=r"ca.pem: the certificate authority .*\. Restore its backup\."):
        Authority.load_or_create(path, NOW)
    assert path.read_bytes() == before


@pytest.mark.parametrize("now", [NOW + LIFE, NOW - 2 * SKEW])
def test_authority_outside_its_validity_is_refused(tmp_path: Path, now: datetime) -> None:
    Authority.load_or_create(tmp_path / "ca.pem", NOW)
    with pytest.raises(EngineError, match=f"the clock says {now:%Y-%m-%d}"):
        Authority.load_or_create(tmp_path / "ca.pem", now)
