"""Converts arguments of the native part, and waits for its calls in a thread or an event loop."""

from __future__ import annotations

import asyncio
import json
import math
import operator
import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any, Optional, Union

from . import _tenure
from ._errors import InvalidInputError

#: A duration: seconds, or a ``timedelta``.
Seconds = Union[int, float, timedelta]


class _Default:
    def __repr__(self) -> str:
        return "<default>"


#: The default of a setting for which ``None`` is a value.
DEFAULT: Any = _Default()

_LONGEST = timedelta.max.total_seconds()

#: The main thread handles signals at this interval, in seconds, while it waits.
_SIGNALS = 0.05


def seconds(name: str, duration: Seconds) -> float:
    """Return the duration in seconds. An error contains the name of the parameter."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    if isinstance(duration, bool) or not hasattr(duration, "__float__"):
        raise TypeError(f"{name} must be a number of seconds or a timedelta, got {duration!r}")
    try:
        value = float(duration)
    except OverflowError:
        value = math.inf
    if not 0 <= value <= _LONGEST:
        raise InvalidInputError(f"{name} must be 0 to {_LONGEST:.0f} seconds, got {value:g}")
    return value


def typed(name: str, value: Any, kind: type) -> Any:
    """Return ``value`` if it is of type ``kind``. An error contains the name of the parameter."""
    kinds = (int, float) if kind is float else kind
    if not isinstance(value, kinds) or isinstance(value, bool) is not (kind is bool):
        raise TypeError(f"{name} must be of type {kind.__name__}, got {value!r}")
    return value


def whole(name: str, number: Any, least: int = 0, most: int = 9_999_999_999) -> Any:
    """Return ``number`` as an ``int``, or ``None``. An error contains the name of the parameter."""
    if number is None:
        return None
    try:
        number = operator.index(number)
    except TypeError:
        raise TypeError(f"{name} must be of type int, got {number!r}") from None
    if not least <= number <= most:
        raise InvalidInputError(f"{name} must be {least} to {most}, got {number}")
    return number


#: The types of the settings that are not durations.
_TYPES: dict[str, type] = {
    "name": str,
    "layout": str,
    "reason": str,
    "clock_drift_max": float,
    "verify_renewals": bool,
    "check_store": bool,
    "name_is_unique": bool,
    "machine_is_never_paused": bool,
    "leave_when_overdue": bool,
}


def json_text(data: Any) -> str:
    """Return a value as JSON. Refuses NaN, infinities and integers of more than 64 bits."""
    try:
        text = json.dumps(data, allow_nan=False)
        json.loads(text, parse_int=_integer)
    except ValueError as error:
        raise InvalidInputError(f"data must be JSON: {error}") from error
    except TypeError as error:
        raise TypeError(f"data must be JSON: {error}") from error
    return text


def _integer(text: str) -> int:
    if -(2**63) <= int(text) < 2**64:
        return int(text)
    raise ValueError("an integer in JSON must have at most 64 bits")


def settings_json(
    durations: dict[str, Optional[Seconds]],
    nullable: dict[str, Optional[Seconds]],
    others: dict[str, Any],
) -> str:
    """Return the given settings as JSON. In ``nullable``, only ``DEFAULT`` is a missing setting."""
    given: dict[str, Any] = {
        name: seconds(name, value) for name, value in durations.items() if value is not None
    }
    for name, value in nullable.items():
        if value is not DEFAULT:
            given[name] = None if value is None else seconds(name, value)
    for name, value in others.items():
        if value is not None:
            given[name] = typed(name, value, _TYPES[name]) if name in _TYPES else value
    return json_text(given)


def wait(task: _tenure.Task, timeout: Optional[Seconds] = None, late: str = "") -> Any:
    """Wait for a call in this thread. An exception, such as KeyboardInterrupt, cancels the call.

    The text of ``TimeoutError`` begins with ``late``.
    """
    try:
        is_main = threading.current_thread() is threading.main_thread()
        step = _SIGNALS if is_main else 3600.0
        limit = None if timeout is None else seconds("timeout", timeout)
        end = None if limit is None else time.monotonic() + limit
        while True:
            left = step if end is None else min(step, max(0.0, end - time.monotonic()))
            if task.wait(left):
                return task.result()
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"{late} within {limit:g} s")
    except BaseException:
        task.cancel()
        raise


async def wait_async(task: _tenure.Task) -> Any:
    """Wait for a call in an event loop. A cancellation of the asyncio task cancels the call."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ended.done():
            ended.set_result(None)

    def on_end() -> None:
        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:
            pass  # the loop is closed, so no task waits

    try:
        task.on_end(on_end)
        await ended
        return task.result()
    except BaseException:
        task.cancel()
        raise


def store_urls(store: Union[str, os.PathLike[str]]) -> list[str]:
    """Return the URLs of a store. Several URLs in one text have white space between them."""
    if isinstance(store, os.PathLike):
        return [_path_url(os.fspath(store))]
    several = store.split()
    if len(several) > 1 and all("://" in url for url in several):
        return several
    if store.startswith(("/", "./", "../")) or (store.endswith("/") and ":" not in store):
        return [_path_url(store)]
    return [store]


def _path_url(path: str) -> str:
    return Path(os.path.abspath(path)).as_uri()
