import contextlib
import http.client
import json
import pathlib
import re
import socket
import socketserver
import threading
import types
import unittest
import unittest.mock
import urllib.parse
import wsgiref.simple_server

import django.conf
import fastapi
import uvicorn
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.test.utils import override_settings
from django.urls import path

import headgate.asgi
import headgate.fastapi
import headgate.wsgi
from headgate import AsyncHeadgate, Headgate
from stage import README, TIMEOUT, URL, Listener, reply, user


def by_user(who):
    """What a request is limited on: nothing without a user. A check that fails raises."""
    if who == "broken":
        raise LookupError("no such session")
    return {"domain": "shop", "entries": {"user": who}} if who else None


def malformed(_):
    return {"domain": "", "entries": {"user": "1"}}


@contextlib.contextmanager
def asgi_server(app):
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass

    def get_stderr(self):
        return open("/dev/null", "w")


class Threading(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


@contextlib.contextmanager
def wsgi_server(app):
    with wsgiref.simple_server.make_server("127.0.0.1", 0, app, Threading, Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def get(url, who=None):
    """Returns status, header fields in lower case and body."""
    target = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(target.hostname, target.port, timeout=TIMEOUT)
    try:
        connection.request("GET", "/", headers={"X-User": who} if who else {})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


class Cases:
    """What holds in each framework. module is that of its middleware."""

    def shop(self, *, check=by_user, on_refused=None, url=URL, **options):
        """A server whose handler says "served" and the hits that remain. check gets the header X-User."""
        raise NotImplementedError

    def test_five_pass(self):
        with self.shop() as shop:
            who = user()
            for left in range(4, -1, -1):
                status, headers, body = get(shop, who)
                self.assertEqual((status, body), (200, b"served %d" % left))
                self.assertRegex(headers["ratelimit"], rf'^"per_user";r={left};t=\d+$')
                self.assertEqual(headers["x-ratelimit-remaining"], "the handler's", "what the handler sets stays")
            status, headers, body = get(shop, who)
            self.assertEqual(status, 429)
            self.assertGreaterEqual(int(headers["retry-after"]), 1)
            self.assertEqual(headers["cache-control"], "no-store")
            self.assertTrue(headers["content-type"].startswith("application/problem+json"))
            self.assertEqual(json.loads(body)["status"], 429)
            self.assertEqual(get(shop, user())[0], 200)
            self.assertEqual(get(shop)[2], b"served None", "what has no user is not asked about")

    def test_fault_of_the_key(self):
        with self.shop() as shop:
            self.assertEqual(get(shop, "broken")[0], 500)

    def test_refused_check(self):
        seen = []
        with self.shop(check=malformed, on_refused=lambda error: seen.append(error.status)) as shop:
            self.assertEqual(get(shop, "1")[0], 200)
        with self.shop(check=malformed, on_refused=lambda error: seen.append(error.status), failure="closed") as shop:
            self.assertEqual(get(shop, "1")[0], 503)
        self.assertEqual(seen, [400, 400])

    def test_refused_check_is_logged_once(self):
        with self.shop(check=lambda _: {"domain": "", "entries": {"framework": type(self).__name__}, "op": "hit", "hits": 1.5}) as shop:
            headgate._answer._warned.clear()
            with self.assertLogs("headgate", "ERROR") as logs:
                get(shop, "1"), get(shop, "1")
        self.assertEqual(len(logs.output), 1)

    def test_fail_open_and_closed(self):
        with Listener(None) as down:
            with self.shop(url=down.url) as shop:
                self.assertEqual(get(shop, "1")[2], b"served None")
            with self.shop(url=down.url, failure="closed") as shop:
                status, headers, body = get(shop, "1")
                self.assertEqual((status, headers["retry-after"], json.loads(body)["status"]), (503, "1", 503))
                self.assertTrue(headers["content-type"].startswith("application/problem+json"))

    def test_held_back(self):
        slept = []

        async def sleep(seconds):
            slept.append(seconds)

        clocks = {"time": types.SimpleNamespace(sleep=slept.append), "asyncio": types.SimpleNamespace(sleep=sleep)}
        with Listener(reply(200, '{"allowed":true,"matched":true,"rule":"r","delay_ms":3600000}')) as shaping:
            with self.shop(url=shaping.url) as shop, unittest.mock.patch.multiple(self.module, create=True, **clocks):
                self.assertEqual(get(shop, "1")[0], 200)
        self.assertEqual(slept, [3600])


HANDLERS = {"X-RateLimit-Remaining": "the handler's"}


def served(decision):
    return f"served {decision.remaining if decision else None}"


class FastAPITest(Cases, unittest.TestCase):
    module = "headgate.asgi"

    def shop(self, *, check=by_user, on_refused=None, url=URL, **options):
        app = fastapi.FastAPI()
        told = {"on_refused": on_refused} if on_refused else {}
        app.add_middleware(
            headgate.fastapi.HeadgateMiddleware, headgate=AsyncHeadgate(url, timeout=TIMEOUT, **options),
            check=lambda request: check(request.headers.get("x-user")), **told)

        @app.get("/")
        async def index(request: fastapi.Request):
            decision = getattr(request.state, "headgate", None)
            return fastapi.responses.PlainTextResponse(served(decision), headers=HANDLERS if decision and decision.matched else {})

        return asgi_server(app)


    def test_example_of_the_readme(self):
        """It answers whoever asks, who names no user too."""
        text = pathlib.Path(README).read_text(encoding="utf-8")
        example = re.search(r"```python\n(from headgate import AsyncHeadgate\nfrom headgate\.fastapi .*?)```", text, re.S).group(1)
        self.assertIn('AsyncHeadgate("http://headgate:8080")', example)
        app = fastapi.FastAPI()

        @app.get("/")
        async def index():
            return "served"

        exec(example.replace('"http://headgate:8080"', f'"{URL}", timeout={TIMEOUT}'), {"app": app})
        with asgi_server(app) as shop:
            for who in (user(), None):
                status, headers, _ = get(shop, who)
                self.assertEqual(status, 200)
                self.assertIn("ratelimit", headers)


class ASGITest(Cases, unittest.TestCase):
    module = "headgate.asgi"

    def shop(self, *, check=by_user, on_refused=None, url=URL, **options):
        async def app(scope, receive, send):
            decision = scope.get("state", {}).get("headgate")
            fields = [(name.encode(), value.encode()) for name, value in HANDLERS.items()] if decision and decision.matched else []
            await send({"type": "http.response.start", "status": 200, "headers": fields})
            await send({"type": "http.response.body", "body": served(decision).encode()})

        async def awaited(scope):
            return check(dict(scope["headers"]).get(b"x-user", b"").decode("latin-1"))

        told = {"on_refused": on_refused} if on_refused else {}
        return asgi_server(headgate.asgi.HeadgateMiddleware(
            app, headgate=AsyncHeadgate(url, timeout=TIMEOUT, **options), check=awaited, **told))


class WSGITest(Cases, unittest.TestCase):
    module = "headgate.wsgi"

    def shop(self, *, check=by_user, on_refused=None, url=URL, **options):
        def app(environ, start_response):
            decision = environ.get("headgate")
            start_response("200 OK", list(HANDLERS.items()) if decision and decision.matched else [])
            return [served(decision).encode()]

        told = {"on_refused": on_refused} if on_refused else {}
        client = Headgate(url, timeout=TIMEOUT, **options)
        self.addCleanup(client.close)
        return wsgi_server(headgate.wsgi.HeadgateMiddleware(
            app, headgate=client, check=lambda environ: check(environ.get("HTTP_X_USER")), **told))


    def test_denial_of_head_has_no_body(self):
        with Listener(reply(429, '{"allowed":false}')) as denying, self.shop(url=denying.url) as shop:
            target = urllib.parse.urlsplit(shop)
            with socket.create_connection((target.hostname, target.port), TIMEOUT) as connection:
                connection.sendall(b"HEAD / HTTP/1.1\r\nHost: shop\r\nX-User: 1\r\nConnection: close\r\n\r\n")
                with connection.makefile("rb") as answer:
                    head, _, body = answer.read().partition(b"\r\n\r\n")
            self.assertIn(b" 429 ", head)
            self.assertEqual(body, b"")


def view(request):
    decision = getattr(request, "headgate", None)
    return HttpResponse(served(decision), headers=HANDLERS if decision and decision.matched else {})


urlpatterns = [path("", view)]
django.conf.settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, SECRET_KEY="of a test", LOGGING_CONFIG=None,
    MIDDLEWARE=["headgate.django.HeadgateMiddleware"])
django.setup()


class DjangoCases(Cases):
    module = "headgate.django"

    @contextlib.contextmanager
    def shop(self, *, check=by_user, on_refused=None, url=URL, **options):
        told = {"on_refused": on_refused} if on_refused else {}
        settings = {"url": url, "timeout": TIMEOUT, "check": lambda request: check(request.headers.get("X-User")), **told, **options}
        with override_settings(HEADGATE=settings), self.server() as server:
            yield server

    def server(self):
        raise NotImplementedError


class DjangoTest(DjangoCases, unittest.TestCase):
    def server(self):
        return wsgi_server(WSGIHandler())

    def test_settings(self):
        async def awaited(request):
            return None

        for settings in ({}, {"url": URL}, {"url": URL, "check": 1}, {"url": "h", "check": malformed}, {"url": URL, "check": malformed, "retry": 1},
                         {"url": URL, "check": awaited}):
            with override_settings(HEADGATE=settings), self.assertRaises(ImproperlyConfigured, msg=settings):
                WSGIHandler()
        with override_settings(HEADGATE={"url": URL, "check": f"{__name__}.malformed"}):
            WSGIHandler()


class DjangoAsyncTest(DjangoCases, unittest.TestCase):
    def server(self):
        return asgi_server(ASGIHandler())
