"""A middleware for every WSGI application, Flask among them.

    app.wsgi_app = HeadgateMiddleware(app.wsgi_app, headgate=Headgate("http://headgate:8080"),
                                      check=lambda environ: {"domain": "shop", "entries": {"address": environ["REMOTE_ADDR"]}})
"""

import http.client
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headgate._answer import denial, missing, warn
from headgate._call import HeadgateError
from headgate._sync import Headgate
from headgate._wire import Check

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class HeadgateMiddleware:
    """Asks Headgate before a request is served.

    check(environ) says what the request is limited on; None lets it pass unasked, and what
    it raises is an error of the request. The answer gets the fields in which clients are
    told their limits. A denial is answered by 429, or by 503 where nothing could be
    decided, and what a rule delays is held back. Handlers find the decision in
    environ["headgate"]. on_refused is told when the server refuses a check; the request
    then goes as the failure mode says. Default: a line of the log "headgate", once for
    each message.
    """

    def __init__(
        self, application: "WSGIApplication", *, headgate: Headgate, check: "Callable[[WSGIEnvironment], Check | None]",
        on_refused: Callable[[HeadgateError], None] = warn,
    ) -> None:
        self._application, self._headgate, self._check, self._on_refused = application, headgate, check, on_refused

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        check = self._check(environ)
        if check is None:
            return self._application(environ, start_response)
        try:
            decision = self._headgate.check(check)
        except HeadgateError as error:
            self._on_refused(error)
            decision = self._headgate.undecided("store_misconfigured")
        environ["headgate"] = decision
        if not decision.allowed:
            fields, body = denial(decision)
            start_response(f"{decision.status} {http.client.responses.get(decision.status, 'Denied')}", fields)
            # Not every server leaves the body out by itself, and a client would read it as the next answer.
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

        def told(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
            return start_response(status, headers + missing(decision, (name for name, _ in headers)), exc_info)

        if decision.delay_ms > 0:
            time.sleep(decision.delay_ms / 1000)
        return self._application(environ, told)
