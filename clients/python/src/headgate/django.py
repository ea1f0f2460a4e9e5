"""A middleware for Django, under WSGI and ASGI.

    MIDDLEWARE = [..., "headgate.django.HeadgateMiddleware"]
    HEADGATE = {"url": "http://headgate:8080", "check": "shop.limits.check"}

HEADGATE["check"] is a function, or its path: check(request) says what the request is
limited on, None lets it pass unasked, and what it raises is an error of the request. Under
ASGI it may be a coroutine function. The others are the options of headgate.Headgate, and
on_refused, which is told when the server refuses a check. Put the middleware after those
that check needs, such as AuthenticationMiddleware.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string

from headgate._answer import denial, missing, warn
from headgate._asyncio import AsyncHeadgate
from headgate._call import HeadgateError
from headgate._sync import Headgate
from headgate._wire import Check, Decision


class HeadgateMiddleware:
    """Asks Headgate before a request is served.

    The answer gets the fields in which clients are told their limits. A denial is answered
    by 429, or by 503 where nothing could be decided, and what a rule delays is held back.
    Views find the decision in request.headgate. When the server refuses a check the request
    goes as the failure mode says, and a line of the log "headgate" says so, once for each
    message, unless on_refused is set.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        options = dict(getattr(settings, "HEADGATE", {}))
        check = options.pop("check", None)
        self._on_refused: Callable[[HeadgateError], None] = options.pop("on_refused", warn)
        self._check: Callable[[HttpRequest], Check | None | Awaitable[Check | None]] = import_string(check) if isinstance(check, str) else check
        if not callable(self._check) or "url" not in options:
            raise ImproperlyConfigured("HEADGATE wants url, and check as a function or its path")
        is_async = iscoroutinefunction(get_response)
        if iscoroutinefunction(self._check) and not is_async:
            raise ImproperlyConfigured("HEADGATE['check'] is a coroutine function, which takes ASGI and no synchronous middleware around")
        try:
            self._headgate: Headgate | AsyncHeadgate = AsyncHeadgate(**options) if is_async else Headgate(**options)
        except (TypeError, ValueError) as error:
            raise ImproperlyConfigured(f"HEADGATE: {error}") from None
        if is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        if isinstance(self._headgate, AsyncHeadgate):
            return self._acall(request, self._headgate)
        decision = self._decide(request, self._headgate)
        if decision is None:
            return self._get_response(request)
        request.headgate = decision
        if not decision.allowed:
            return _denied(decision)
        if decision.delay_ms > 0:
            time.sleep(decision.delay_ms / 1000)
        return _told(self._get_response(request), decision)

    async def _acall(self, request: HttpRequest, headgate: AsyncHeadgate) -> Any:
        decision = await self._adecide(request, headgate)
        if decision is None:
            return await self._get_response(request)
        request.headgate = decision
        if not decision.allowed:
            return _denied(decision)
        if decision.delay_ms > 0:
            await asyncio.sleep(decision.delay_ms / 1000)
        return _told(await self._get_response(request), decision)

    def _decide(self, request: HttpRequest, headgate: Headgate) -> Decision | None:
        check = self._check(request)
        if check is None:
            return None
        assert not isinstance(check, Awaitable)
        try:
            return headgate.check(check)
        except HeadgateError as error:
            self._on_refused(error)
            return headgate.undecided("store_misconfigured")

    async def _adecide(self, request: HttpRequest, headgate: AsyncHeadgate) -> Decision | None:
        check = self._check(request)
        if inspect.isawaitable(check):
            check = await check
        if check is None:
            return None
        try:
            return await headgate.check(check)
        except HeadgateError as error:
            self._on_refused(error)
            return headgate.undecided("store_misconfigured")


def _denied(decision: Decision) -> HttpResponse:
    fields, body = denial(decision)
    return HttpResponse(body, status=decision.status, headers=dict(fields))


def _told(response: Any, decision: Decision) -> Any:
    for name, value in missing(decision, response.headers):
        response.headers[name] = value
    return response
