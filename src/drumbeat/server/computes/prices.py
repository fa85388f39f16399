"""What an hour of a GPU and of a slot of each compute costs, as an owner of the server has set it."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from dataclasses import replace

from drumbeat.model import wire
from drumbeat.model.api.use import Price
from drumbeat.model.errors import SpecError
from drumbeat.server.database.store import SqlStore

log = logging.getLogger(__name__)

SETTING = "prices"
MAX_PRICE = 1e6
MAX_CURRENCY = 8


class Prices:
    """The prices of computes. Thread-safe. require: raises NotFoundError for a compute that isn't there."""

    def __init__(self, store: SqlStore, require: Callable[[str], object]) -> None:
        self._store, self._require = store, require

    def all(self) -> dict[str, Price]:
        """Returns the prices by compute, also of computes that aren't there any more."""
        stored = json.loads(self._store.setting(SETTING) or "{}")
        return {name: wire.from_wire(Price, price) for name, price in stored.items()}

    def of(self, compute: str) -> Price:
        """Returns the price of a compute, zeros where none was set. Raises NotFoundError."""
        self._require(compute)
        return self.all().get(compute, Price())

    def set(self, compute: str, price: Price) -> Price:
        """Sets the price of a compute; without any amount, it has none any more. Raises NotFoundError, SpecError."""
        self._require(compute)
        for key, value in (("gpu_hour", price.gpu_hour), ("slot_hour", price.slot_hour)):
            if not (math.isfinite(value) and 0 <= value <= MAX_PRICE):
                raise SpecError(f"{value:g} isn't a price", where=key, fix=f"Give a number from 0 to {MAX_PRICE:,.0f}.")
        if len(price.currency) > MAX_CURRENCY or not price.currency.isprintable():
            raise SpecError(
                f"{price.currency!r} isn't a currency", where="currency", fix=f"Up to {MAX_CURRENCY} letters, like EUR."
            )
        others = {name: one for name, one in self.all().items() if name != compute}
        if price.currency:
            others = {name: replace(one, currency=price.currency) for name, one in others.items()}
        else:
            price = replace(price, currency=next((one.currency for one in others.values()), ""))
        prices = {**others, compute: price} if price.gpu_hour or price.slot_hour else others
        self._store.set_setting(SETTING, json.dumps({n: wire.to_wire(one) for n, one in prices.items()}))
        log.info("price of compute %s: %s", compute, price)
        return prices.get(compute, Price())
