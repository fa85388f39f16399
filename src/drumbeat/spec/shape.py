"""What every piece of a job file is made of: the frozen model, and the small types that its fields use.

Here lives how a value is taken in (None is "not set", enums in any case, texts without NUL, no bool as a number) and
how a contradiction is said. What the keys mean lives with the models; how an error is worded lives in `problems`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    JsonValue,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import no_info_before_validator_function

from drumbeat.protocol.errors import SpecError
from drumbeat.spec.problems import Seen, fold, nearest, problems_of, shown, words

Loc = tuple[str | int, ...]


class Contradiction(NamedTuple):
    """A key (relative to the model that says it), what can't be meant about it, and what to do.

    `near` is a piece of the value's text that the message is about.
    """

    key: Loc
    what: str
    fix: str = ""
    near: str = ""


def complaint(what: str, fix: str = "", near: str = "") -> PydanticCustomError:
    """A refusal in our own words, to raise from a field's validator."""
    # The text goes in as a value: as the template itself, its braces would be read as placeholders.
    return PydanticCustomError("said", "{what}", {"what": what, "fix": fix, "near": near})


class Model(BaseModel):
    """A frozen piece of a job file. Constructing one in Python raises `SpecError`, as loading does."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_by_name=True)

    ignored: ClassVar[frozenset[str]] = frozenset()
    """Keys that are accepted and mean nothing."""
    read_only: ClassVar[frozenset[str]] = frozenset()
    """Keys that a service answers with, and nobody writes."""

    def __init__(self, /, **data: Any) -> None:
        seen: Seen = {}
        try:
            self.__pydantic_validator__.validate_python(data, self_instance=self, context=seen)
        except ValidationError as error:
            name = type(self).__name__
            raise SpecError.of(problems_of(error, data, seen, lambda loc, _at, _near: dotted((name, *loc)))) from None

    # Says to pydantic that this __init__ only validates, so that nested models don't go through it.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]

    @model_validator(mode="before")
    @classmethod
    def _take_in(cls, value: object, info: ValidationInfo) -> object:
        """An empty key is one that wasn't written; a model's own `type` always counts as written."""
        if not isinstance(value, Mapping):
            return value
        written = cast("Mapping[str, object]", value)
        if isinstance(info.context, dict):
            cast("Seen", info.context)[id(written)] = cls
        taken = {k: v for k, v in written.items() if not (v is None and cls.may_be_empty(k)) and k not in cls.ignored}
        kind = cls.kind()
        if kind and "type" not in taken:
            taken["type"] = kind
        return taken

    @model_validator(mode="after")
    def _agrees(self) -> Model:
        found = [
            InitErrorDetails(type=complaint(c.what, c.fix, c.near), loc=c.key, input=None)
            for c in self.contradictions()
        ]
        if found:
            raise ValidationError.from_exception_data(type(self).__name__, found)
        return self

    def contradictions(self) -> Iterator[Contradiction]:
        """What each key alone may say, but not together with the others."""
        return iter(())

    @classmethod
    def may_be_empty(cls, key: str) -> bool:
        """Whether `key:` with nothing behind it means that the key isn't set."""
        return key in cls.model_fields and not cls.model_fields[key].is_required()

    @classmethod
    def kind(cls) -> str | None:
        """The one word that this model's `type` has, if it has exactly one."""
        field = cls.model_fields.get("type")
        if field is None or get_origin(field.annotation) is not Literal:
            return None
        names = get_args(field.annotation)
        return str(names[0]) if len(names) == 1 else None


def dotted(loc: Loc) -> str:
    """`inputs.data.path`."""
    return ".".join(str(part) for part in loc)


class AnyCase:
    """On a `Literal`: `TensorBoard`, `tensor_board` and `TENSOR-BOARD` are one word."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        names = {fold(name): name for name in get_args(source)}

        def read(value: object) -> object:
            if isinstance(value, str) and fold(value) in names:
                return names[fold(value)]
            raise complaint(
                f"expected {words(names.values(), 'or')}, got {shown(value)}", nearest(value, names.values())
            )

        return no_info_before_validator_function(read, handler(source))


def by_type(
    *classes: type[Model], what: str, otherwise: type[Model] | None = None, absent: type[Model] | None = None
) -> BeforeValidator:
    """Reads a mapping as the one of `classes` that its `type` names.

    `otherwise` reads every other type, `absent` a mapping without one.
    """

    def read(value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping):
            if isinstance(value, Model):
                return value
            raise complaint(f"expected a mapping that describes {what}, got {shown(value)}")
        written = cast("Mapping[str, object]", value)
        return chosen(written, classes, what, otherwise, absent).model_validate(written, context=info.context)

    return BeforeValidator(read)


def chosen(
    written: Mapping[str, object],
    classes: tuple[type[Model], ...],
    what: str,
    otherwise: type[Model] | None,
    absent: type[Model] | None,
) -> type[Model]:
    """The class that `type` names; a complaint at `type` otherwise."""
    kinds = {fold(str(cls.kind())): cls for cls in classes}
    names = [str(cls.kind()) for cls in classes]
    kind = written.get("type")
    if kind is None and absent is not None:
        return absent
    if kind is None:
        raise complaint(f"{what} has no `type`", f"Write `type:` {words(names, 'or')}.")
    if isinstance(kind, str) and fold(kind) in kinds:
        return kinds[fold(kind)]
    close = nearest(kind, names)
    if otherwise is not None and isinstance(kind, str) and not close:
        return otherwise
    details = InitErrorDetails(
        type=complaint(f"{what} can be {words(names, 'or')}, not {shown(kind)}", close), loc=("type",), input=kind
    )
    raise ValidationError.from_exception_data(what, [details])


def model_or_text(cls: Callable[[], type[Model]], what: str) -> BeforeValidator:
    """Reads a mapping as `cls()` and leaves a text alone. Called late, because models may hold themselves."""

    def read(value: object, info: ValidationInfo) -> object:
        if isinstance(value, Mapping):
            return cls().model_validate(value, context=info.context)
        if not isinstance(value, str | cls()):
            raise complaint(f"expected {what}, or a mapping, got {shown(value)}")
        return value

    return BeforeValidator(read)


def _printable(value: str) -> str:
    if "\0" in value:
        raise complaint("a text can't hold a NUL character")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise complaint("a text can't hold half a character (a lone surrogate)")
    return value


def _filled(value: str) -> str:
    if not value.strip():
        raise complaint("this text is empty")
    return value


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise complaint(f"expected a number, got {shown(value)}")
    return value


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) else value


def _inner(value: str) -> str:
    if value.startswith(("/", "~")) or "\\" in value or ".." in value.split("/") or re.match(r"[A-Za-z]:", value):
        raise complaint(f"{shown(value)} leaves the job's folder", "Give a path inside it, without `..`.")
    return value


def _finite(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and not math.isfinite(value):
        raise complaint(f"expected a finite number, got {value}")
    if isinstance(value, str):
        _printable(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            _printable(key)
            _finite(inner)
    for inner in value if isinstance(value, list) else ():
        _finite(inner)
    return value


def literal(value: object) -> object:
    """A plain value, not a list, a mapping or an object; numbers are finite."""
    if not isinstance(value, bool | int | float | str):
        raise complaint(f"expected a plain value, got {shown(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise complaint(f"expected a finite number, got {value}")
    return value


def pattern(regex: str, rule: str) -> AfterValidator:
    """A text must match `regex` whole; `rule` says in words what that means."""
    compiled = re.compile(regex)

    def read(value: str) -> str:
        if not compiled.fullmatch(value):
            raise complaint(f"{shown(value)} isn't allowed here: {rule}")
        return value

    return AfterValidator(read)


def _key(check: Callable[[str], bool], rule: str) -> AfterValidator:
    def read(value: str) -> str:
        if not check(value):
            raise complaint(f"{shown(value)} can't be a name here: {rule}")
        return value

    return AfterValidator(read)


Text = Annotated[str, AfterValidator(_printable)]
Scalar = Annotated[StrictBool | StrictInt | StrictFloat | Text, BeforeValidator(literal)]
Filled = Annotated[Text, AfterValidator(_filled)]
AsText = Annotated[Text, BeforeValidator(_as_text)]
Name = Annotated[
    str, pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}", "letters, digits, `-` and `_`, at most 255, no `-` or `_` first")
]
Identifier = Annotated[
    str, pattern(r"[A-Za-z_][A-Za-z0-9_]{0,254}", "letters, digits and `_`, at most 255, no digit first")
]
Variable = Annotated[
    str, _key(lambda n: bool(n) and "=" not in n and "\0" not in n, "a variable's name isn't empty and has no `=`")
]
InnerPath = Annotated[Filled, AfterValidator(_inner)]
Whole = Annotated[int, BeforeValidator(_no_bool)]
Number = Annotated[float, BeforeValidator(_no_bool)]
Count = Annotated[Whole, Field(ge=1, le=1_000_000)]
Tally = Annotated[Whole, Field(ge=0, le=1_000_000_000)]
Port = Annotated[Whole, Field(ge=1, le=65_535)]
Seconds = Annotated[Number, Field(gt=0, le=1e9)]
Wait = Annotated[Number, Field(ge=0, le=1e9)]
Json = Annotated[JsonValue, AfterValidator(_finite)]
Version = Annotated[AsText, AfterValidator(_filled)]
