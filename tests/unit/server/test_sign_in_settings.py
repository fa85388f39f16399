"""The file of the identity provider: each key, and what is refused with a sentence that names it."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from drumbeat.model.errors import RefusedError, SpecError
from drumbeat.server.process.serve import provider_settings
from drumbeat.server.sign_in.settings import ProviderClient, read_settings

pytestmark = pytest.mark.feature("X7")

LEAST = 'issuer = "https://idp.example/realms/team"\nclient_id = "drumbeat"\n'
ROLES = '[roles]\nowner = ["admins"]\ncontributor = ["admins", "ml"]\n'


def settings_file(folder: Path, text: str) -> Path:
    file = folder / "oidc.toml"
    file.write_text(text)
    return file


def test_least_file_has_defaults_and_the_higher_role_of_a_group_counts(tmp_path: Path) -> None:
    made = read_settings(settings_file(tmp_path, LEAST + ROLES))
    assert dict(made.roles) == {"admins": "owner", "ml": "contributor"}
    assert (made.title, made.client, made.device_client) == ("idp.example", ProviderClient("drumbeat"), None)
    assert (made.life, made.clock_skew) == (timedelta(days=7), timedelta(minutes=1))


def test_every_key_is_read_and_secrets_come_from_files(tmp_path: Path) -> None:
    for name in ("secret", "device-secret", "ca.pem"):
        (tmp_path / name).write_text(f"{name}\n")
        (tmp_path / name).chmod(0o600)
    more = (
        'client_secret_file = "secret"\ndevice_client_id = "tv"\ndevice_client_secret_file = "device-secret"\n'
        'name = "Example"\nscopes = "openid groups offline_access"\nname_claim = "email"\n'
        'groups_claim = "realm_access.roles"\nallowed_domains = ["@Example.org"]\nurl = "https://train.example/"\n'
        'ask = "ada"\nlife = "2d"\nunchecked_life = "8h"\ncheck_every = "30s"\nclock_skew = "2m"\n'
        'token_auth = "client_secret_post"\nca_file = "ca.pem"\nauthorize_parameters = { prompt = "consent" }\n'
    )
    made = read_settings(settings_file(tmp_path, LEAST + more + ROLES))
    assert (made.client, made.device_client) == (
        ProviderClient("drumbeat", "secret"),
        ProviderClient("tv", "device-secret"),
    )
    assert (made.url, made.allowed_domains, made.unchecked_life) == (
        "https://train.example",
        ("example.org",),
        timedelta(hours=8),
    )
    assert (dict(made.authorize_parameters), made.token_auth) == ({"prompt": "consent"}, "client_secret_post")
    assert "secret" not in repr(made.client)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("issuer = ", "the file isn't TOML"),
        ('client_id = "drumbeat"\n' + ROLES, "issuer: it is missing"),
        (LEAST, "roles: it says which groups may use the server, and is missing"),
        (LEAST + "[roles]\nboss = []", "roles.boss: there is no such role. The roles are: owner, contributor, reader."),
        (LEAST + '[roles]\nowner = "admins"', "roles.owner: it must be a list of texts"),
        (LEAST + 'grups_claim = "g"\n' + ROLES, "grups_claim: there is no such key"),
        (LEAST.replace("https", "http") + ROLES, "issuer: without TLS, what passes could be read and changed"),
        (LEAST.replace("idp.example/realms/team", "login.microsoftonline.com/common/v2.0") + ROLES, "Name the tenant"),
        (LEAST + 'client_secret_file = "none"\n' + ROLES, "client_secret_file"),
        (LEAST + 'client_secret_file = "open"\n' + ROLES, "every user of this machine can read"),
        (LEAST + 'scopes = "profile"\n' + ROLES, "the scope openid is missing"),
        (LEAST + 'authorize_parameters = { state = "x" }\n' + ROLES, "authorize_parameters.state: the server sets"),
        (LEAST + 'token_auth = "private_key_jwt"\n' + ROLES, "token_auth: 'private_key_jwt' isn't supported"),
        (LEAST + 'life = "forever"\n' + ROLES, "life: can't read 'forever' as a duration"),
        (LEAST + 'clock_skew = "1h"\n' + ROLES, "clock_skew: can't read '1h' as a duration"),
        (LEAST + 'url = "train.example"\n' + ROLES, "url: 'train.example' isn't an address"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "open").write_text("secret")
    (tmp_path / "open").chmod(0o644)
    with pytest.raises(SpecError) as refused:
        read_settings(settings_file(tmp_path, text))
    assert said in str(refused.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the file can't be read"):
        read_settings(tmp_path / "none.toml")


def test_server_without_the_extra_refuses_to_start_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "authlib.oidc.core", None)
    file = settings_file(tmp_path, LEAST + ROLES)
    with pytest.raises(RefusedError) as refused:
        provider_settings(file)
    assert "pip install 'drumbeat[oidc]'" in str(refused.value)
    assert "needs a package that isn't installed" in str(refused.value)
