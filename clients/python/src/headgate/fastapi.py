"""A middleware for FastAPI and Starlette.

    app.add_middleware(HeadgateMiddleware, headgate=AsyncHeadgate("http://headgate:8080"),
                       check=lambda request: {"domain": "shop", "entries": {"user": request.headers.get("x-user", "")}})
"""

from collections.abc import Awaitable, Callable

from starlette.requests import Request

from headgate import asgi
from headgate._answer import warn
from headgate._asyncio import AsyncHeadgate
from headgate._call import HeadgateError
from headgate._wire import Check


class HeadgateMiddleware(asgi.HeadgateMiddleware):
    """headgate.asgi.HeadgateMiddleware, whose check gets a Request. That has no body to read:
    it belongs to the handler, which finds the decision in request.state.headgate."""

    def __init__(
        self, app: asgi.App, *, headgate: AsyncHeadgate, check: Callable[[Request], Check | None | Awaitable[Check | None]],
        on_refused: Callable[[HeadgateError], None] = warn,
    ) -> None:
        super().__init__(app, headgate=headgate, check=lambda scope: check(Request(scope)), on_refused=on_refused)
