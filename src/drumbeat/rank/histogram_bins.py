"""The bins of a histogram: counted by the package of the values where it is one's own, else here."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

MAX_BINS = 512

Bins = tuple[list[float], list[float]]
"""Counts, and edges, which are one more."""


def of(values: Any, bins: int) -> Bins:
    """Returns the bins of the finite values. Raises ValueError, and what the values' package raises."""
    if not 1 <= bins <= MAX_BINS:
        raise ValueError(f"num_bins is from 1 to {MAX_BINS}, and not {bins}")
    if hasattr(values, "detach"):
        return _of_tensor(values.detach(), bins)
    if hasattr(values, "dtype") and "numpy" in sys.modules:
        return _of_array(values, bins)
    return _of_numbers(values, bins)


def given(histogram: Any) -> Bins:
    """Returns ready bins as lists. Raises ValueError for ones that aren't a histogram."""
    counts, edges = ([float(one) for one in part] for part in histogram)
    if not 1 <= len(counts) <= MAX_BINS or len(edges) != len(counts) + 1:
        raise ValueError(f"it has 1 to {MAX_BINS} counts and one edge more, not {len(counts)} and {len(edges)}")
    if not all(map(math.isfinite, [*counts, *edges])) or sorted(edges) != edges or min(counts) < 0:
        raise ValueError("its counts are 0 or more, and its edges finite and ascending")
    return counts, edges


def _of_tensor(tensor: Any, bins: int) -> Bins:
    """Counts on the tensor's own device: only the counts are copied from a GPU."""
    tensor = tensor.float().flatten()
    tensor = tensor[tensor.isfinite()]
    if not tensor.numel():
        raise ValueError("there is no finite value")
    low, high = _widened(float(tensor.min()), float(tensor.max()))
    return [float(one) for one in tensor.histc(bins, low, high).tolist()], _edges(low, high, bins)


def _of_array(array: Any, bins: int) -> Bins:
    numpy = sys.modules["numpy"]
    flat = numpy.asarray(array, dtype=float).ravel()
    flat = flat[numpy.isfinite(flat)]
    if not flat.size:
        raise ValueError("there is no finite value")
    low, high = _widened(float(flat.min()), float(flat.max()))
    counts = numpy.histogram(flat, bins, (low, high))[0]
    return [float(one) for one in counts], _edges(low, high, bins)


def _of_numbers(values: Iterable[Any], bins: int) -> Bins:
    numbers = [number for one in values if math.isfinite(number := float(one))]
    if not numbers:
        raise ValueError("there is no finite value")
    low, high = _widened(min(numbers), max(numbers))
    counts = [0.0] * bins
    for one in numbers:
        counts[min(bins - 1, int((one - low) / (high - low) * bins))] += 1
    return counts, _edges(low, high, bins)


def _widened(low: float, high: float) -> tuple[float, float]:
    """Returns bounds with something between them, as NumPy widens those of equal values."""
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _edges(low: float, high: float, bins: int) -> list[float]:
    return [low + (high - low) * n / bins for n in range(bins)] + [high]
