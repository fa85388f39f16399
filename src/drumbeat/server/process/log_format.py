"""The server's log as JSON, one object a line, for programs that collect logs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime


class JsonFormatter(logging.Formatter):
    """Formats a record as `{"at", "level", "logger", "message", "thread"}`, with `exception` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns one line without a newline in it."""
        shown = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "thread": record.threadName,
        }
        if record.exc_info:
            shown["exception"] = self.formatException(record.exc_info)
        return json.dumps(shown, ensure_ascii=False)
