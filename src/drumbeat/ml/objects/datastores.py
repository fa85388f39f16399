"""Datastores, and the credentials for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drumbeat.ml.objects.plain import Attributes
from drumbeat.model.api.data import DatastoreView
from drumbeat.model.errors import SpecError


class Credentials(Attributes):
    """What opens a store. It is sent once, sealed by the server, and never shown again."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class AccountKeyConfiguration(Credentials):
    """The key of a storage account."""

    def __init__(self, *, account_key: str) -> None:
        super().__init__(account_key=account_key)


class SasTokenConfiguration(Credentials):
    """A shared access signature."""

    def __init__(self, *, sas_token: str) -> None:
        super().__init__(sas_token=sas_token)


class ServicePrincipalConfiguration(Credentials):
    """A service principal with its secret: `tenant_id`, `client_id`."""

    def __init__(self, *, client_secret: str, **keys: str) -> None:
        kept = {key: value for key, value in keys.items() if key in ("tenant_id", "client_id", "authority_url")}
        super().__init__(client_secret=client_secret, **kept)


class CertificateConfiguration(Credentials):
    """A service principal with its certificate, which drumbeat's stores don't take."""

    def __init__(self, certificate: str | None = None, thumbprint: str | None = None, **keys: str) -> None:
        super().__init__(certificate=certificate, thumbprint=thumbprint, **keys)


class NoneCredentialConfiguration(Credentials):
    """No credentials: the store can be read by all."""

    def __init__(self) -> None:
        super().__init__()


class SealedCredentials(Credentials):
    """The credentials of a datastore that was read: the server has them, and doesn't give them back."""


class Datastore(Attributes):
    """A place where data lies. Subclasses say of which kind it is."""

    type = ""
    keys: tuple[str, ...] = ()
    """What the datastore's file has beside its name, description and tags."""

    def __init__(
        self,
        credentials: Credentials | None = None,
        name: str | None = None,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        **keys: Any,
    ) -> None:
        super().__init__(
            name=name, description=description, tags=dict(tags or {}), properties=dict(properties or {}), **keys
        )
        self.credentials = credentials or NoneCredentialConfiguration()

    name: str | None
    description: str | None
    tags: dict[str, str]

    def to_document(self) -> dict[str, Any]:
        """Returns the keys of a datastore's file, with the credentials. Raises SpecError for those it can't use."""
        if isinstance(self.credentials, SealedCredentials):
            what = f"the datastore {self.name} was read from this server, which doesn't give its credentials back"
            raise SpecError(what, fix="Set other `credentials`, or create it again with them.")
        if isinstance(self.credentials, CertificateConfiguration):
            fix = "Take a service principal with its secret, a SAS token or an account key."
            raise SpecError(f"the datastore {self.name} has a certificate, which drumbeat doesn't take", fix=fix)
        own = {key: getattr(self, key, None) for key in ("name", "description", *self.keys)}
        given = {key: value for key, value in own.items() if value is not None}
        secrets = vars(self.credentials)
        return {"type": self.type, "tags": self.tags, **given, **({"credentials": dict(secrets)} if secrets else {})}


class AzureBlobDatastore(Datastore):
    """A container of an Azure storage account."""

    type = "azure_blob"
    keys = ("account_name", "container_name", "endpoint", "protocol")

    def __init__(
        self,
        *,
        name: str,
        account_name: str,
        container_name: str,
        endpoint: str | None = None,
        protocol: str = "https",
        **keys: Any,
    ) -> None:
        own = {"account_name": account_name, "container_name": container_name, "endpoint": endpoint}
        super().__init__(name=name, protocol=protocol, **own, **keys)


class AzureFileDatastore(Datastore):
    """A file share of an Azure storage account."""

    type = "azure_file"
    keys = ("account_name", "file_share_name", "endpoint", "protocol")

    def __init__(
        self,
        *,
        name: str,
        account_name: str,
        file_share_name: str,
        endpoint: str = "core.windows.net",
        protocol: str = "https",
        **keys: Any,
    ) -> None:
        own = {"account_name": account_name, "file_share_name": file_share_name, "endpoint": endpoint}
        super().__init__(name=name, protocol=protocol, **own, **keys)


class AzureDataLakeGen2Datastore(Datastore):
    """A file system of Azure Data Lake, second generation."""

    type = "azure_data_lake_gen2"
    keys = ("account_name", "filesystem", "endpoint", "protocol")

    def __init__(
        self,
        *,
        name: str,
        account_name: str,
        filesystem: str,
        endpoint: str = "core.windows.net",
        protocol: str = "https",
        **keys: Any,
    ) -> None:
        own = {"account_name": account_name, "filesystem": filesystem, "endpoint": endpoint}
        super().__init__(name=name, protocol=protocol, **own, **keys)


_KINDS: dict[str, type[Datastore]] = {
    cls.type: cls for cls in (AzureBlobDatastore, AzureFileDatastore, AzureDataLakeGen2Datastore)
}


def datastore_from(view: DatastoreView) -> Datastore:
    """Returns a datastore of the server, without its credentials; one of drumbeat's own kinds as a plain Datastore."""
    cls = _KINDS.get(view.type, Datastore)
    keys = {key: value for key, value in view.document.items() if key not in ("type", "name", "credentials", "tags")}
    credentials = None if view.credentials == "none" else SealedCredentials()
    store = cls(name=view.name, tags=view.document.get("tags"), credentials=credentials, **keys)
    store.__dict__.update(type=view.type, is_default=view.is_default, id=f"azureml://datastores/{view.name}")
    return store


def datastore_from_document(document: Mapping[str, Any]) -> Datastore:
    """Returns the datastore that a file describes; its credentials are those of its keys."""
    cls = _KINDS.get(str(document.get("type", "")).casefold())
    if cls is None:
        raise SpecError(
            f"drumbeat.ml makes no datastore of type {document.get('type')}",
            fix="Make it with `drumbeat datastore create -f FILE`.",
        )
    given = {key: value for key, value in document.items() if key not in ("type", "$schema", "credentials")}
    secrets = dict(cast("Mapping[str, str]", document.get("credentials") or {}))
    made = Credentials(**secrets) if secrets else NoneCredentialConfiguration()
    return cls(**given, credentials=made)
