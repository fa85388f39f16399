"""The calls of `Client` about registered models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumbeat.client.calls.data import BytesCallback, DataCalls, NoteCallback, UploadListener, upload_by_content
from drumbeat.client.connection import LISTING_TIMEOUT, Connection, part
from drumbeat.client.responses import view, views
from drumbeat.model.api.models import ModelCheck, ModelExport, ModelView, RegistryKey
from drumbeat.model.errors import RefusedError, SpecError

if TYPE_CHECKING:
    from drumbeat.client.store_transfers import Transfer
    from drumbeat.jobfile.data.assets import ModelAsset

    GivenModel = str | Path | Mapping[str, Any] | ModelAsset

DEFAULT = "default"
FOLDER = "model"
"""The folder of the files of an exported model, beside what belongs to it."""


def _ignore(_: object) -> None:
    pass


def _version(name: str, version: str) -> str:
    return f"/models/{part(name)}/versions/{part(version or '@latest')}"


class ModelCalls:
    """A part of `Client`. A version is named by its number or text, `@champion` (an alias), or "" (the newest)."""

    connection: Connection

    def models(self, name: str | None = None, *, archived: bool = False) -> list[ModelView]:
        """The newest version of each model; with a name, all versions of it, newest first. archived: these too."""
        params = {"archived": archived, **({"name": name} if name else {})}
        return views(ModelView, self.connection.call("GET", "/models", params=params))

    def model(self, name: str, version: str = "") -> ModelView:
        """One version, with its origin and the jobs that used it. Raises NotFoundError."""
        return view(ModelView, self.connection.call("GET", _version(name, version)))

    def create_model(  # noqa: PLR0913 - each argument is one option of `drumbeat model create`
        self,
        model: GivenModel,
        *,
        sets: Sequence[str] = (),
        datastore: str = DEFAULT,
        trust: bool = False,
        on_bytes: BytesCallback = _ignore,
        on_note: NoteCallback = _ignore,
    ) -> ModelView:
        """Registers a version of a model: the path of a file, or one made in Python.

        A local path is uploaded first, to a folder of `datastore` that is named by its content; a custom model may be
        one file. trust: a pickle in which something dangerous is found doesn't refuse it. Raises SpecError;
        ConflictError when the version exists with other content; RefusedError for a dangerous pickle.
        """
        from drumbeat.jobfile.data.paths import Local, reference_to

        asked, base, source = _asked(model, sets)
        document = asked.model_dump(mode="json", exclude_unset=True)
        place, is_file = reference_to(asked.path, f"{source}: path"), False
        if isinstance(place, Local):
            here = base / Path(place.path).expanduser()
            is_file = here.is_file()
            if is_file and asked.type != "custom_model":
                fix = "Name the folder that it is in, or write `type: custom_model`."
                raise SpecError(f"this is a file, and the type is {asked.type}", where=str(here), fix=fix)
            listener = UploadListener(on_bytes, on_note)
            document["path"] = upload_by_content(self.connection, here, datastore, listener).uri
        body = {"document": document, "source": source, "is_file": is_file, "is_trusted": trust}
        return view(ModelView, self.connection.call("POST", "/models", json=body, timeout=LISTING_TIMEOUT))

    def change_model(
        self,
        name: str,
        version: str = "",
        *,
        stage: str | None = None,
        description: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> ModelView:
        """Changes stage ("" = none), description or all tags of a version. Raises NotFoundError."""
        given = {"stage": stage, "description": description, "tags": dict(tags) if tags is not None else None}
        body = {key: value for key, value in given.items() if value is not None}
        return view(ModelView, self.connection.call("PATCH", _version(name, version), json=body))

    def set_model_alias(self, name: str, version: str, alias: str) -> ModelView:
        """Has an alias name a version, and no other one. Raises NotFoundError, SpecError."""
        path = f"/models/{part(name)}/aliases/{part(alias)}"
        return view(ModelView, self.connection.call("PUT", path, json={"version": version or "@latest"}))

    def remove_model_alias(self, name: str, alias: str) -> None:
        """Removes an alias. Raises NotFoundError."""
        self.connection.call("DELETE", f"/models/{part(name)}/aliases/{part(alias)}")

    def archive_model(self, name: str, version: str = "") -> None:
        """Hides a version, or all versions of a name (""), from lists. Raises NotFoundError."""
        self.connection.call("POST", f"{_version(name, version) if version else f'/models/{part(name)}'}/archive")

    def restore_model(self, name: str, version: str = "") -> None:
        """Shows an archived version, or all of a name, in lists again. Raises NotFoundError."""
        self.connection.call("POST", f"{_version(name, version) if version else f'/models/{part(name)}'}/restore")

    def delete_model(self, name: str, version: str) -> None:
        """Deletes a version with its aliases; its files stay. Raises NotFoundError."""
        self.connection.call("DELETE", _version(name, version))

    def verify_model(self, name: str, version: str = "") -> ModelCheck:
        """Has the server verify signature, files and origin of a version. Raises NotFoundError."""
        return view(
            ModelCheck, self.connection.call("POST", f"{_version(name, version)}/verify", timeout=LISTING_TIMEOUT)
        )

    def registry_key(self) -> RegistryKey:
        """The public key by which the statements of this registry are verified."""
        return view(RegistryKey, self.connection.call("GET", "/registry-key"))

    def export_model(self, name: str, version: str, to: str | Path, *, on_bytes: BytesCallback = _ignore) -> Transfer:
        """Copies the files of a version into the folder `model` of a new folder, with its signature and more beside it.

        Raises NotFoundError; RefusedError if the folder has something else in it.
        """
        from drumbeat.client.store_transfers import Download

        folder = Path(to)
        exported = view(ModelExport, self.connection.call("GET", f"{_version(name, version)}/export"))
        others = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
        if set(others) - {FOLDER, *exported.texts}:
            raise RefusedError("the folder isn't empty", where=str(folder), fix="Name a new one: --to FOLDER")
        data: Any = self
        assert isinstance(data, DataCalls)  # noqa: S101 - `Client` is both
        transfer = Download(self.connection, data.list_files(exported.uri), folder / FOLDER, on_bytes).run()
        for file, text in exported.texts.items():
            (folder / file).write_text(text, encoding="utf-8")
        return transfer


def _asked(model: GivenModel, sets: Sequence[str]) -> tuple[ModelAsset, Path, str]:
    """Returns the model, the folder that its path counts from, and its source. Raises SpecError."""
    from typing import cast

    from drumbeat.jobfile.data.assets import MODEL
    from drumbeat.jobfile.reading.loader import load_model, model_from

    if isinstance(model, str | Path):
        return cast("ModelAsset", load_model(model, MODEL, sets)), Path(model).absolute().parent, str(model)
    if sets:
        raise SpecError("values are set in a file; this model was made in Python", fix="Set them on the object.")
    made = model_from(model, MODEL, "model") if isinstance(model, Mapping) else model
    return cast("ModelAsset", made), Path.cwd(), "model"
