"""Converts series and points to views of the API."""

from __future__ import annotations

from datetime import UTC, datetime

from drumbeat.model.api.metrics import PointView, SeriesView
from drumbeat.model.metrics import Point, Series, value_to_json


def series_view(series: Series) -> SeriesView:
    """Returns a series as the API shows it."""
    low, high = (point_view(point) if point else None for point in (series.min, series.max))
    return SeriesView(series.name, series.rank, series.count, point_view(series.last), low, high)


def point_view(point: Point) -> PointView:
    """Returns a point as the API shows it."""
    return PointView(point.step, value_to_json(point.value), time_of(point.at_ms))


def time_of(at_ms: int) -> datetime:
    """Converts a timestamp, clamped to the valid range, because clients may log any number."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.max.replace(tzinfo=UTC) if at_ms > 0 else datetime.min.replace(tzinfo=UTC)
