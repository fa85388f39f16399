"""The functions that a sweep draws its values from, as keys. The drawing is in `core/sweeps/random_sampling.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag

from drumbeat.jobfile.reading.error_messages import short
from drumbeat.jobfile.reading.field_types import Identifier, Number, Scalar, Whole, complaint
from drumbeat.jobfile.reading.model import AnyCase, Contradiction, Model, by_type

Above0 = Annotated[Number, Field(gt=0)]
Kind = AnyCase()


class SearchFunction(Model):
    """One dimension of a search space. Takes its values by place or by name."""

    positional: ClassVar[tuple[str, ...]] = ()

    if not TYPE_CHECKING:  # the type checker reads each class's own signature

        def __init__(self, /, *values: Any, **data: Any) -> None:
            if len(values) > len(self.positional):
                raise TypeError(f"{type(self).__name__} takes {', '.join(self.positional)}: {len(values)} values given")
            super().__init__(**dict(zip(self.positional, values, strict=False)), **data)

        __init__.__pydantic_base_init__ = True


class Interval(SearchFunction):
    """A function with a lower and an upper bound."""

    positional = ("min_value", "max_value")

    if TYPE_CHECKING:

        def __init__(self, min_value: float, max_value: float) -> None: ...

    min_value: Number = Field(description="Lower bound; of the logarithm, for a log function.")
    max_value: Number = Field(description="Upper bound; of the logarithm, for a log function.")

    def contradictions(self) -> Iterator[Contradiction]:
        if self.min_value >= self.max_value:
            yield Contradiction(
                ("min_value",), f"the lower end, {self.min_value:g}, isn't below the upper, {self.max_value:g}"
            )


class IntervalSteps(Interval):
    """The same, rounded to multiples of `q`."""

    positional = ("min_value", "max_value", "q")

    if TYPE_CHECKING:

        def __init__(self, min_value: float, max_value: float, q: float) -> None: ...

    q: Above0 = Field(description="Step to round values to.")


class Gaussian(SearchFunction):
    """A function with a mean and a standard deviation."""

    positional = ("mu", "sigma")

    if TYPE_CHECKING:

        def __init__(self, mu: float, sigma: float) -> None: ...

    mu: Number = Field(description="Mean; of the logarithm, for a log function.")
    sigma: Above0 = Field(description="Standard deviation; of the logarithm, for a log function.")


class GaussianSteps(Gaussian):
    """The same, rounded to multiples of `q`."""

    positional = ("mu", "sigma", "q")

    if TYPE_CHECKING:

        def __init__(self, mu: float, sigma: float, q: float) -> None: ...

    q: Above0 = Field(description="Step to round values to.")


class RandInt(SearchFunction):
    """A whole number from 0 to `upper`, excluding `upper`."""

    positional = ("upper",)

    if TYPE_CHECKING:

        def __init__(self, upper: int) -> None: ...

    type: Annotated[Literal["randint"], Kind] = Field(default="randint", description="Always `randint`.")
    upper: Annotated[Whole, Field(ge=1)] = Field(description="Exclusive upper bound.")


Randint = RandInt


class Uniform(Interval):
    """A uniformly distributed value between the bounds."""

    type: Annotated[Literal["uniform"], Kind] = Field(default="uniform", description="Always `uniform`.")


class LogUniform(Interval):
    """exp(sample): uniformly distributed on a logarithmic scale."""

    type: Annotated[Literal["loguniform"], Kind] = Field(default="loguniform", description="Always `loguniform`.")


class QUniform(IntervalSteps):
    """round(draw / q) * q."""

    type: Annotated[Literal["quniform"], Kind] = Field(default="quniform", description="Always `quniform`.")


class QLogUniform(IntervalSteps):
    """round(exp(draw) / q) * q."""

    type: Annotated[Literal["qloguniform"], Kind] = Field(default="qloguniform", description="Always `qloguniform`.")


class Normal(Gaussian):
    """A normally distributed value."""

    type: Annotated[Literal["normal"], Kind] = Field(default="normal", description="Always `normal`.")


class LogNormal(Gaussian):
    """exp(sample)."""

    type: Annotated[Literal["lognormal"], Kind] = Field(default="lognormal", description="Always `lognormal`.")


class QNormal(GaussianSteps):
    """round(draw / q) * q."""

    type: Annotated[Literal["qnormal"], Kind] = Field(default="qnormal", description="Always `qnormal`.")


class QLogNormal(GaussianSteps):
    """round(exp(draw) / q) * q."""

    type: Annotated[Literal["qlognormal"], Kind] = Field(default="qlognormal", description="Always `qlognormal`.")


def _shape(value: object) -> str:
    if isinstance(value, SearchFunction):
        return "[function]"
    return "[mapping]" if isinstance(value, Mapping) else "[value]"


def _nested_shape(value: object) -> str:
    return "[function]" if _shape(value) != "[value]" else "[value]"


def _plain(value: object) -> object:
    """Refuses what a command line can't hold, with a text that the script can read."""
    if value is None:
        raise complaint(
            "a value of a choice can't be nothing", "Write a word for it, like 'none', for the script to read."
        )
    if isinstance(value, list):
        text = short(json.dumps(value, default=str))
        fix = f"Write it as a text, which the script reads by json.loads: '{text}'"
        raise complaint("a value of a choice can't be a list", fix)
    return value


Plain = Annotated[Scalar, BeforeValidator(_plain), Tag("[value]")]
Nested = Annotated[
    Annotated["SearchValue", Tag("[function]")] | Plain, Discriminator(_nested_shape)
]  # a branch of a conditional space may hold functions of its own
ChoiceValue = Annotated[
    Annotated[dict[Identifier, Nested], Tag("[mapping]")] | Plain,
    Discriminator(_shape),
]


class Choice(SearchFunction):
    """One of the listed values. A mapping is a branch: its keys are set together, and may be functions again."""

    positional = ("values",)

    if TYPE_CHECKING:

        def __init__(self, values: list[Any]) -> None: ...

    type: Annotated[Literal["choice"], Kind] = Field(default="choice", description="Always `choice`.")
    values: list[ChoiceValue] = Field(min_length=1, description="The values.")


SearchValue = Annotated[
    Choice | RandInt | Uniform | LogUniform | QUniform | QLogUniform | Normal | LogNormal | QNormal | QLogNormal,
    by_type(
        *(Choice, RandInt, Uniform, LogUniform, QUniform, QLogUniform, Normal, LogNormal, QNormal, QLogNormal),
        what="a search function",
    ),
]
Choice.model_rebuild()
FUNCTIONS: tuple[type[SearchFunction], ...] = get_args(get_args(SearchValue)[0])
