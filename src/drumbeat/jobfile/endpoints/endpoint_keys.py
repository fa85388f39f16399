"""An online endpoint as its file describes it: a name, how clients prove who they are, and who gets the requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field

from drumbeat.jobfile.job.resources_and_limits import ComputeName
from drumbeat.jobfile.reading.error_messages import fold, shown
from drumbeat.jobfile.reading.field_types import AsText, Filled, Json, Text, Whole, complaint
from drumbeat.jobfile.reading.loader import DocumentKind, Places, load_model, model_from
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model.endpoints import MAX_MIRRORED, MAX_NAME, MIN_NAME, NAME_RULE, OnlineEndpoint, check_name
from drumbeat.model.errors import SpecError

READ_ONLY = frozenset({"$schema", "id", "scoring_uri", "openapi_uri", "provisioning_state", "location", "kind",
                       "creation_context"})  # fmt: skip
"""Keys that Azure's `show` prints, so that files have them: accepted, without effect."""


def _name(value: str) -> str:
    try:
        return check_name(value)
    except SpecError:
        length = f", and this has {len(value)}" if not MIN_NAME <= len(value) <= MAX_NAME else ""
        raise complaint(f"{shown(value)} can't be a name here: {NAME_RULE}{length}") from None


def _auth_mode(value: object) -> object:
    if isinstance(value, str) and fold(value) == fold("aad_token"):
        what = "drumbeat has no tokens of Microsoft Entra ID"
        raise complaint(
            what, "Write `auth_mode: key`, or `auth_mode: aml_token` for tokens that are valid for an hour."
        )
    return value


EndpointNameText = Annotated[Filled, AfterValidator(_name)]
Percent = Annotated[Whole, Field(ge=0, le=100)]
Traffic = dict[Text, Percent]


class OnlineEndpointKeys(Model):
    """The keys that endpoints of both kinds have."""

    noun: ClassVar[str] = "the endpoint"
    ignored: ClassVar[frozenset[str]] = READ_ONLY

    name: EndpointNameText = Field(description="Its name, which is part of its address.")
    auth_mode: Annotated[
        Annotated[Literal["key", "aml_token"], AnyCase()], BeforeValidator(_auth_mode)
    ] = Field(
        default="key",
        description="`key`: clients send one of two keys. `aml_token`: they send a token that is valid for an hour.",
    )  # fmt: skip
    traffic: Traffic = Field(
        default_factory=dict, description="Percent of the requests by deployment; the sum is 0 or 100."
    )
    mirror_traffic: Traffic = Field(
        default_factory=dict,
        description="One deployment, and percent of the requests, at most 50, that it gets as copies. Its answers are "
        "dropped.",
    )
    description: Text | None = Field(default=None, description="Description of its purpose.")
    tags: dict[str, AsText] = Field(default_factory=dict, description="Free-form labels.")
    properties: dict[str, AsText] = Field(default_factory=dict, description="Labels that can't be changed.")
    identity: Json = Field(default=None, description="Azure's identity of the endpoint. Ignored by drumbeat.")

    def contradictions(self) -> Iterator[Contradiction]:
        total = sum(self.traffic.values())
        if total not in (0, 100):
            fix = "Make the sum 100, or leave `traffic` out for now."
            yield Contradiction(("traffic",), f"the percentages add up to {total}, not 0 or 100", fix)
        mirrored = {name: share for name, share in self.mirror_traffic.items() if share}
        if len(mirrored) > 1:
            fix = "Name one deployment."
            yield Contradiction(("mirror_traffic",), f"{len(mirrored)} deployments get copies", fix)
        for name, share in mirrored.items():
            key = ("mirror_traffic", name)
            if share > MAX_MIRRORED:
                yield Contradiction(key, f"{share} % of the requests are mirrored", f"At most {MAX_MIRRORED} % can be.")
            if self.traffic.get(name):
                yield Contradiction(key, f"{name} has traffic already", "A deployment gets traffic, or copies of it.")

    def ignored_notes(self) -> Iterator[str]:
        """Yields a sentence about each key that was set and means nothing here."""
        if self.identity is not None:
            yield "identity is ignored: endpoints have no identity of Azure's here"


class ManagedOnlineEndpoint(OnlineEndpointKeys):
    """An endpoint by Azure's managed schema."""

    public_network_access: Annotated[Literal["enabled", "disabled"], AnyCase()] | None = Field(
        default=None, description="Ignored by drumbeat: `drumbeat server start --scoring` says where endpoints listen."
    )

    def ignored_notes(self) -> Iterator[str]:
        yield from super().ignored_notes()
        if self.public_network_access is not None:
            yield "public_network_access is ignored: drumbeat server start --scoring says where endpoints listen"


class KubernetesOnlineEndpoint(OnlineEndpointKeys):
    """An endpoint by Azure's Kubernetes schema, which names the compute of its deployments."""

    compute: ComputeName = Field(description="The compute of deployments that name none under `drumbeat`.")


def _choose_model(document: Mapping[str, Any], places: Places) -> type[Model]:
    """Returns the class, as Azure chooses it: an endpoint with a compute is a Kubernetes one."""
    del places
    return KubernetesOnlineEndpoint if document.get("compute") else ManagedOnlineEndpoint


ENDPOINT = DocumentKind("an endpoint", _choose_model, "`name:`")


def load_endpoint(path: str | Path, overrides: Sequence[str] = ()) -> OnlineEndpointKeys:
    """Returns the endpoint that a file describes. Raises SpecError with every problem at its line."""
    return cast("OnlineEndpointKeys", load_model(path, ENDPOINT, overrides))


def endpoint_from(document: Mapping[str, Any], name: str = "endpoint") -> OnlineEndpointKeys:
    """Returns the endpoint in a mapping; places in messages are `name.key`."""
    return cast("OnlineEndpointKeys", model_from(document, ENDPOINT, name))


def endpoint_definition(keys: OnlineEndpointKeys) -> OnlineEndpoint:
    """Returns the endpoint as the server takes it."""
    written = {**to_dict(keys)}
    for key in ("identity", "public_network_access"):
        written.pop(key, None)
    is_kubernetes = isinstance(keys, KubernetesOnlineEndpoint)
    compute = str(written.pop("compute", "")).removeprefix("azureml:")
    kind: Literal["managed", "kubernetes"] = "kubernetes" if is_kubernetes else "managed"
    return OnlineEndpoint(**written, kind=kind, compute=compute)
