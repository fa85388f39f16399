"""`azure`: has Azure ML's own clients, unchanged, call this server."""

from __future__ import annotations

import json
import os
import shlex
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from drumbeat.cli.terminal.connect import connect
from drumbeat.cli.terminal.help import new_family
from drumbeat.client.discovery import default_home
from drumbeat.model.errors import StorageError

app = new_family("Have Azure ML's own Python client, unchanged, submit its jobs to this server.")

NO_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
CONFIG = "config.json"
BUNDLE = "azure-ca.pem"
VARIABLES = (
    "ARM_CLOUD_METADATA_URL", "REQUESTS_CA_BUNDLE", "IDENTITY_ENDPOINT", "IDENTITY_HEADER", "AZURE_TOKEN_CREDENTIALS",
    "AZUREML_CURRENT_CLOUD",
)  # fmt: skip
"""What `--unset` removes. The last one is set by the client itself, in its own process."""

HoursOption = Annotated[
    float, typer.Option("--hours", min=0.01, metavar="HOURS", help="How long the token lasts; 720 at most.")
]
UnsetOption = Annotated[bool, typer.Option("--unset", help="Print what undoes it.")]


@app.command("env", epilog="Example: drumbeat azure env --hours 8")
def env(unset: UnsetOption = False, hours: HoursOption = 24.0) -> None:
    """Print the variables with which Azure's client calls this server, for a shell to evaluate.

    They hold a token of yours that expires. The server stays until then.
    """
    if unset:
        print(f"unset {' '.join(VARIABLES)}")
        return
    session = connect().azure_session(hours)
    bundle = write_bundle(session.ca, default_home(os.environ))
    for name, value in variables(session.url, session.token, bundle).items():
        print(f"export {name}={shlex.quote(value)}")
    print(f"Azure's client calls {session.url} as {session.person} until {session.expires_at:%Y-%m-%d %H:%M} UTC",
          file=sys.stderr)  # fmt: skip


def variables(url: str, token: str, bundle: Path) -> dict[str, str]:
    """Returns the variables by which Azure's client finds a server, trusts it and gets a token of it."""
    return {
        "ARM_CLOUD_METADATA_URL": f"{url}/metadata/endpoints?api-version=2019-05-01",
        "REQUESTS_CA_BUNDLE": str(bundle),
        "IDENTITY_ENDPOINT": f"{url}/identity",
        "IDENTITY_HEADER": token,
        "AZURE_TOKEN_CREDENTIALS": "ManagedIdentityCredential",
    }


def write_bundle(ca: str, folder: Path) -> Path:
    """Writes a file with the server's authority and those that the system trusts, and returns its path.

    The variable that names it holds for all that a script fetches. Raises StorageError.
    """
    path = folder / BUNDLE
    text = f"{ca.strip()}\n{system_authorities(os.environ, str(path))}"
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        aside.write_text(text)
        aside.replace(path)
    except OSError as error:
        raise StorageError(f"the certificates can't be written: {error.strerror}", where=str(path)) from None
    return path


def system_authorities(environ: Mapping[str, str], own: str) -> str:
    """Returns the certificates that are trusted without drumbeat. own: the file that an earlier call has named."""
    paths = ssl.get_default_verify_paths()
    for place in (environ.get("REQUESTS_CA_BUNDLE"), environ.get("SSL_CERT_FILE"), paths.cafile, paths.openssl_cafile):
        if place and place != own and Path(place).is_file():
            return Path(place).read_text(errors="replace")
    return ""


@app.command("config", epilog="Example: drumbeat azure config")
def config(
    folder: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Where to write it.")] = Path(),
    workspace: Annotated[str, typer.Option("--workspace", metavar="NAME", help="What to call it.")] = "drumbeat",
) -> None:
    """Write config.json, from which MLClient.from_config() reads a workspace. Any names do: all mean this server."""
    document = {"subscription_id": NO_SUBSCRIPTION, "resource_group": "drumbeat", "workspace_name": workspace}
    path = folder / CONFIG
    try:
        if path.exists() and json.loads(path.read_text()) != document:
            fix = "It may name your workspace in Azure, and works here as it is. To write another: --to FOLDER"
            raise StorageError("there is a config.json already", where=str(path.absolute()), fix=fix)
        path.write_text(json.dumps(document, indent=4) + "\n")
    except (OSError, ValueError) as error:
        raise StorageError(f"config.json can't be written: {error}", where=str(path.absolute())) from None
    print(path)
