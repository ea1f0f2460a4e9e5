"""A middleware for every ASGI application.

    app = HeadgateMiddleware(app, headgate=AsyncHeadgate("http://headgate:8080"),
                             check=lambda scope: {"domain": "shop", "entries": {"address": scope["client"][0]}})
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from headgate._answer import denial, missing, warn
from headgate._asyncio import AsyncHeadgate
from headgate._call import HeadgateError
from headgate._wire import Check, Decision

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class HeadgateMiddleware:
    """Asks Headgate before a request is served.

    check(scope) says what the request is limited on; None lets it pass unasked, and what it
    raises is an error of the request. It may be a coroutine function. The answer gets the
    fields in which clients are told their limits. A denial is answered by 429, or by 503
    where nothing could be decided, and what a rule delays is held back. Handlers find the
    decision in scope["state"]["headgate"]. on_refused is told when the server refuses a
    check; the request then goes as the failure mode says. Default: a line of the log
    "headgate", once for each message.
    """

    def __init__(
        self, app: App, *, headgate: AsyncHeadgate, check: Callable[[Scope], Check | None | Awaitable[Check | None]],
        on_refused: Callable[[HeadgateError], None] = warn,
    ) -> None:
        self._app, self._headgate, self._check, self._on_refused = app, headgate, check, on_refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        decision = await self._decide(scope) if scope["type"] == "http" else None
        if decision is None:
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["headgate"] = decision
        if not decision.allowed:
            fields, body = denial(decision)
            await send({"type": "http.response.start", "status": decision.status, "headers": _encoded(fields)})
            await send({"type": "http.response.body", "body": body})
            return

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                fields = list(message.get("headers", ()))
                fields += _encoded(missing(decision, (name.decode("latin-1") for name, _ in fields)))
                message = {**message, "headers": fields}
            await send(message)

        if decision.delay_ms > 0:
            await asyncio.sleep(decision.delay_ms / 1000)
        await self._app(scope, receive, told)

    async def _decide(self, scope: Scope) -> Decision | None:
        check = self._check(scope)
        if isinstance(check, Awaitable):
            check = await check
        if check is None:
            return None
        try:
            return await self._headgate.check(check)
        except HeadgateError as error:
            self._on_refused(error)
            return self._headgate.undecided("store_misconfigured")


def _encoded(fields: list[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
