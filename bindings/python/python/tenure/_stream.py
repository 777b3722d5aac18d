"""Streams of observations and events, for ``for`` and for ``async for``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Callable, Generic, TypeVar

from . import _tenure
from ._calls import wait, wait_async

T = TypeVar("T")


class Stream(Generic[T], Iterator[T], AsyncIterator[T]):
    """An iterator whose items come from the store. It serves ``for`` and ``async for``.

    A ``for`` loop blocks its thread until the next item.

    >>> import tenure, tenure.testing
    >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
    >>> observations = election.observe()
    >>> next(observations).state
    'vacant'
    """

    def __init__(self, inner: _tenure.Stream, parse: Callable[[Any], T]) -> None:
        self._inner = inner
        self._parse = parse

    def __iter__(self) -> Stream[T]:
        return self

    def __next__(self) -> T:
        item = wait(self._inner.next())
        if item is None:
            raise StopIteration
        return self._parse(item)

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> T:
        item = await wait_async(self._inner.next())
        if item is None:
            raise StopAsyncIteration
        return self._parse(item)
