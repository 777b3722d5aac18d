"""The events of the library as records of the logger ``tenure``."""

from __future__ import annotations

import json
import logging

_logger = logging.getLogger("tenure")


def log(level: int, message: str, fields: str) -> None:
    """Log an event of the native part. Its fields are in the attribute ``fields`` of the record."""
    if _logger.isEnabledFor(level):
        parsed = json.loads(fields)
        shown = (f"{name}={value}" for name, value in parsed.items() if value != "")
        text = " ".join([message, *shown])
        _logger.log(level, "%s", text, extra={"fields": parsed})
