"""Datastore files: a name, a type, the place of the data, and the credentials for it.

The keys are Azure's where Azure has them. How a store is reached lives with the stores. A credential is held as a
`SecretStr`, is in no message, and can be split off, to be kept apart from the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from drumbeat.jobfile.data.credentials import (
    AzureAccess,
    Credentials,
    FileShareAccess,
    GcsAccess,
    HttpAccess,
    S3Access,
    SftpAccess,
    read_sas,
)
from drumbeat.jobfile.reading.error_messages import fold, nearest, shown, words
from drumbeat.jobfile.reading.field_types import AsText, Host, Name, OneLine, Port, Text, User, complaint, pattern
from drumbeat.jobfile.reading.loader import DocumentKind, Places, model_from
from drumbeat.jobfile.reading.model import AnyCase, Model
from drumbeat.model.errors import Problem, SpecError

AZURE = "core.windows.net"
"""Where Azure's own accounts are."""

NOT_HERE = {
    "azuredatalakegen1": "Azure has retired Data Lake gen1",
    "onelake": "OneLake isn't supported",
    "hdfs": "HDFS isn't supported",
}


# --- values -----------------------------------------------------------------------------------------------------
def _web(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise complaint("this isn't an address that begins with `http://` or `https://`")
    if "@" in parts.netloc:
        raise complaint("this address has a user or a password in it", "Put them under `credentials`.")
    if parts.query or parts.fragment:
        fix = "Leave it away; what lets one in goes under `credentials`, as `query`."
        raise complaint("this address has a `?` or `#` in it", fix)
    return value.rstrip("/")


def _endpoint(value: str) -> str:
    return _web(value) if "://" in value else value


def _folder(value: str) -> str:
    return value.removeprefix("file://")


Account = Annotated[str, pattern(r"[a-z0-9]{3,24}", "3 to 24 small letters and digits")]
Container = Annotated[str, pattern(r"\$?[a-z0-9-]{3,63}", "3 to 63 small letters, digits and `-`")]
Bucket = Annotated[
    str,
    pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{2,221}", "3 to 222 letters, digits, `.`, `_` and `-`, a letter or digit first"),
]
WebAddress = Annotated[OneLine, AfterValidator(_web)]
Endpoint = Annotated[
    OneLine,
    AfterValidator(_endpoint),
    pattern(r"https?://.+|[A-Za-z0-9.-]+", "a suffix like `core.windows.net`, or an address with `http://`"),
]
Prefix = Annotated[str, pattern(r"[^\r\n\0]{0,4096}", "one line")]


# --- datastores -------------------------------------------------------------------------------------------------
class DatastoreKeys(Model):
    """The keys that every datastore has."""

    noun: ClassVar[str] = "the datastore"
    ignored: ClassVar[frozenset[str]] = frozenset({"$schema"})

    name: Name = Field(description="What jobs call it, as in `azureml://datastores/blobs/paths/train`.")
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free-form labels.")


class AzureAccount(DatastoreKeys):
    """What blobs and a Data Lake have in common: they are the same account's."""

    account_name: Account = Field(description="The storage account.")
    endpoint: Endpoint = Field(
        default=AZURE, description="Suffix of the account's host; or the address of a server of your own."
    )
    credentials: AzureAccess = Field(
        default="none", repr=False, description="`account_key`, `sas_token` or a service principal; or how else."
    )


class AzureBlobDatastore(AzureAccount):
    """A container of an Azure storage account."""

    type: Annotated[Literal["azure_blob"], AnyCase()] = Field(default="azure_blob", description="Always `azure_blob`.")
    container_name: Container = Field(description="The container.")
    protocol: Literal["https", "http", "wasbs", "wasb"] = Field(default="https", description="How to speak to it.")


class AzureFileDatastore(DatastoreKeys):
    """A file share of an Azure storage account."""

    type: Annotated[Literal["azure_file"], AnyCase()] = Field(default="azure_file", description="Always `azure_file`.")
    account_name: Account = Field(description="The storage account.")
    file_share_name: Container = Field(description="The share.")
    protocol: Literal["https", "http"] = Field(default="https", description="How to speak to it.")
    endpoint: Endpoint = Field(default=AZURE, description="Suffix of the account's host.")
    credentials: FileShareAccess = Field(default="none", repr=False, description="`account_key` or `sas_token`.")


class DataLakeDatastore(AzureAccount):
    """A file system of Azure Data Lake, second generation."""

    type: Annotated[Literal["azure_data_lake_gen2"], AnyCase()] = Field(
        default="azure_data_lake_gen2", description="Always `azure_data_lake_gen2`."
    )
    filesystem: Container = Field(description="The file system.")
    protocol: Literal["https", "http", "abfss", "abfs"] = Field(default="https", description="How to speak to it.")


class FolderDatastore(DatastoreKeys):
    """A folder that the server sees: its own disk, or a share that is mounted there."""

    type: Annotated[Literal["folder"], AnyCase()] = Field(default="folder", description="Always `folder`.")
    path: Annotated[OneLine, AfterValidator(_folder)] = Field(description="The folder.")

    @property
    def is_absolute(self) -> bool:
        """Whether the path is the same wherever it is read; `~` is the home of the server's user."""
        return self.path.startswith(("/", "~"))


class HttpDatastore(DatastoreKeys):
    """A folder of a web server. It can be read, not written."""

    type: Annotated[Literal["http"], AnyCase()] = Field(default="http", description="Always `http`.")
    url: WebAddress = Field(description="Address of the folder.")
    credentials: HttpAccess = Field(
        default="none", repr=False, description="`user` and `password`, `token`, or `query`."
    )


class S3Datastore(DatastoreKeys):
    """A bucket of Amazon S3, or of a server that speaks like it."""

    type: Annotated[Literal["s3"], AnyCase()] = Field(default="s3", description="Always `s3`.")
    bucket: Bucket = Field(description="The bucket.")
    endpoint: WebAddress | None = Field(default=None, description="Address of the server; Amazon's when absent.")
    region: OneLine | None = Field(default=None, description="Its region; `us-east-1` when nothing names one.")
    prefix: Prefix = Field(default="", description="What every path in it begins with.")
    credentials: S3Access = Field(
        default="none", repr=False, description="`access_key_id` and `secret_access_key`; or how else."
    )


class SftpDatastore(DatastoreKeys):
    """A folder of a machine that ssh reaches."""

    type: Annotated[Literal["sftp"], AnyCase()] = Field(default="sftp", description="Always `sftp`.")
    host: Host = Field(description="Name or IP address.")
    port: Port = Field(default=22, description="Port of its ssh server.")
    user: User = Field(description="User to log in as.")
    path: OneLine = Field(
        default=".", description="The folder; counted from the user's home if it doesn't begin with `/`."
    )
    known_hosts: Text | None = Field(
        default=None, description="Lines as in ssh's `known_hosts`; the file of the server's user when absent."
    )
    credentials: SftpAccess = Field(
        default="environment",
        repr=False,
        description="`password`, or `private_key`; else the keys and the agent of the server's user.",
    )


class GcsDatastore(DatastoreKeys):
    """A bucket of Google Cloud Storage."""

    type: Annotated[Literal["gcs"], AnyCase()] = Field(default="gcs", description="Always `gcs`.")
    bucket: Bucket = Field(description="The bucket.")
    endpoint: WebAddress | None = Field(default=None, description="Address of the server; Google's when absent.")
    credentials: GcsAccess = Field(default="none", repr=False, description="`service_account`; or how else.")


Datastore: TypeAlias = (
    AzureBlobDatastore
    | AzureFileDatastore
    | DataLakeDatastore
    | FolderDatastore
    | HttpDatastore
    | S3Datastore
    | SftpDatastore
    | GcsDatastore
)
CLASSES: dict[str, type[Datastore]] = {
    "azure_blob": AzureBlobDatastore,
    "azure_file": AzureFileDatastore,
    "azure_data_lake_gen2": DataLakeDatastore,
    "folder": FolderDatastore,
    "http": HttpDatastore,
    "s3": S3Datastore,
    "sftp": SftpDatastore,
    "gcs": GcsDatastore,
}


# --- reading ----------------------------------------------------------------------------------------------------
def datastore_from(document: Mapping[str, Any], name: str = "datastore") -> Datastore:
    """The datastore in a mapping as YAML would give it; places in messages are `name.key`."""
    return cast("Datastore", model_from(document, DATASTORE, name))


def _choose_model(document: Mapping[str, Any], places: Places) -> type[Model]:
    kind = document.get("type")
    model = {fold(name): cls for name, cls in CLASSES.items()}.get(fold(kind)) if isinstance(kind, str) else None
    if model is not None:
        return model
    if kind is None:
        raise SpecError.from_problems(
            [Problem("the datastore needs the key `type`", places((), "missing", ""), f"It is {words(CLASSES, 'or')}.")]
        )
    reason = NOT_HERE.get(fold(kind)) if isinstance(kind, str) else None
    what = f"`type`: {reason or 'a datastore is ' + words(CLASSES, 'or') + ', not ' + shown(kind)}"
    raise SpecError.from_problems([Problem(what, places(("type",), "value", ""), nearest(kind, CLASSES))])


DATASTORE = DocumentKind("a datastore", _choose_model, "`name:` and `type:`")


def account_url(spec: AzureBlobDatastore | DataLakeDatastore) -> str:
    """Where the account's blobs are. An endpoint that is an address has the account in its path."""
    if "://" not in spec.endpoint:
        scheme = "http" if spec.protocol in ("http", "wasb", "abfs") else "https"
        return f"{scheme}://{spec.account_name}.blob.{spec.endpoint}"
    parts = urlsplit(spec.endpoint)
    is_whole = parts.path.strip("/") == spec.account_name or (parts.hostname or "").startswith(f"{spec.account_name}.")
    return spec.endpoint if is_whole else f"{spec.endpoint}/{spec.account_name}"


# --- credentials apart ------------------------------------------------------------------------------------------
def kind_of_credentials(datastore: Datastore) -> str:
    """The kind of credentials, as messages call it: `account key`, `SAS token`, …, `environment`, `none`."""
    held = getattr(datastore, "credentials", "none")
    return held.title if isinstance(held, Credentials) else str(held)


def why_read_only(datastore: Datastore) -> str:
    """Why nothing can be written to a store, as far as it is known without asking it; "" = it may be."""
    if isinstance(datastore, HttpDatastore):
        return "what a web server gives can only be read"
    held = getattr(datastore, "credentials", None)
    token = getattr(held, "sas_token", None)
    if not isinstance(token, SecretStr):
        return ""
    allowed = read_sas(token.get_secret_value()).get("sp", "")
    return "its SAS token doesn't allow to write" if allowed and "w" not in allowed else ""


def secret_texts(datastore: Datastore) -> tuple[str, ...]:
    """Every secret text in the datastore's credentials."""
    held = getattr(datastore, "credentials", None)
    if not isinstance(held, Credentials):
        return ()
    fields = (getattr(held, name) for name in type(held).model_fields)
    return tuple(value.get_secret_value() for value in fields if isinstance(value, SecretStr))
