"""Waits for calls of the native part, in a thread or in an event loop."""

from __future__ import annotations

import asyncio
import json
import math
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

#: The value of a setting that is not given, if ``None`` is a value.
DEFAULT: Any = object()

_LONGEST = timedelta.max.total_seconds()

#: The main thread looks for signals this often.
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


def json_text(value: Any) -> str:
    """Return a value as JSON. Refuses numbers that readers of the record would change."""
    try:
        text = json.dumps(value, allow_nan=False)
        json.loads(text, parse_int=_integer)
    except ValueError as error:
        raise InvalidInputError(f"{error}. The request had no effect.") from error
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
    """Return the given settings as JSON. In ``nullable``, ``None`` is a value."""
    given: dict[str, Any] = {
        name: seconds(name, value) for name, value in durations.items() if value is not None
    }
    for name, value in nullable.items():
        if value is not DEFAULT:
            given[name] = None if value is None else seconds(name, value)
    given.update((name, value) for name, value in others.items() if value is not None)
    return json_text(given)


def wait(task: _tenure.Task, timeout: Optional[Seconds] = None) -> Any:
    """Wait for a call in this thread. An exception, such as KeyboardInterrupt, cancels the call."""
    try:
        is_main = threading.current_thread() is threading.main_thread()
        step = _SIGNALS if is_main else 3600.0
        end = None if timeout is None else time.monotonic() + seconds("timeout", timeout)
        while True:
            left = step if end is None else min(step, max(0.0, end - time.monotonic()))
            if task.wait(left):
                return task.result()
            if end is not None and time.monotonic() >= end:
                raise TimeoutError("the call has not ended within its timeout")
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
