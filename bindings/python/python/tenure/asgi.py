"""An ASGI middleware that serves requests only while this process leads."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, MutableMapping
from typing import Any, Callable, Optional

from ._election import Election
from ._errors import TenureError
from ._leadership import Leadership

__all__ = ["LeaderMiddleware"]

_logger = logging.getLogger("tenure")
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Pause after a failed campaign, in seconds.
_PAUSE = 5.0


class LeaderMiddleware:
    """Campaigns in ``election`` while ``app`` runs, and answers 503 while this process follows.

    If the server sends no lifespan events, the campaign starts at the first request.

    The body of the 503 is JSON with the name, the epoch and the data of the leader, such as its
    address. The application finds the leadership in ``scope["tenure.leadership"]``.

    >>> import asyncio, tenure, tenure.testing
    >>> from tenure.asgi import LeaderMiddleware
    >>> async def app(scope, receive, send):
    ...     print("served with token", scope["tenure.leadership"].check())
    >>> async def main(election):
    ...     served = LeaderMiddleware(app, election)
    ...     async with served:
    ...         await served.leads.wait()
    ...         await served({"type": "http"}, None, None)
    >>> asyncio.run(main(tenure.Election(tenure.testing.MemoryStore(), prefix="api")))
    served with token 1
    """

    def __init__(self, app: App, election: Election) -> None:
        self._app = app
        self._election = election
        self._campaigns: Optional[asyncio.Task[None]] = None
        self._leadership: Optional[Leadership] = None
        self._leads: Optional[asyncio.Event] = None

    @property
    def leads(self) -> asyncio.Event:
        """An ``asyncio.Event`` of the running loop. It is set while this process leads."""
        if self._leads is None:
            self._leads = asyncio.Event()  # before Python 3.10 it belongs to one loop
        return self._leads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            async with self:
                await self._app(scope, receive, send)
            return
        self._start()  # if no lifespan has started the campaign
        leadership = self._leadership
        if leadership is not None and leadership.leading:
            scope["tenure.leadership"] = leadership
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1013, "reason": "not the leader"})
        else:
            await self._refuse(send)

    async def __aenter__(self) -> LeaderMiddleware:
        self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        campaigns, self._campaigns = self._campaigns, None
        assert campaigns is not None, "__aenter__ sets the task"
        campaigns.cancel()
        await asyncio.wait([campaigns])

    def _start(self) -> None:
        campaigns = self._campaigns
        if campaigns is None or campaigns.done():
            if campaigns is not None:  # their event loop has ended
                self._leads = None
            self._campaigns = asyncio.ensure_future(self._campaign())

    async def _campaign(self) -> None:
        while True:
            try:
                async with self._election.campaign_async() as leadership:
                    self._leadership = leadership
                    self.leads.set()
                    try:
                        await leadership.lost_async()
                    finally:
                        self._leadership = None
                        self.leads.clear()
            except TenureError as error:
                _logger.warning("campaigning again: %s", error)
                await asyncio.sleep(_PAUSE)

    async def _refuse(self, send: Send) -> None:
        seen = self._election.last_seen
        leader = seen and {"name": seen.candidate, "epoch": seen.epoch, "data": seen.data}
        body = json.dumps({"error": "this process does not lead", "leader": leader}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"retry-after", b"1"),
        ]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})
