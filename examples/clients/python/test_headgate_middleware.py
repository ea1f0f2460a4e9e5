import json
import os
import socket
import threading
import unittest
import wsgiref.util

from headgate_middleware import HeadgateMiddleware


def shop(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"served"]


def call(application, user):
    """Calls a WSGI application; returns status, header fields and body."""
    environ, got = {"HTTP_X_USER": user}, {}
    wsgiref.util.setup_testing_defaults(environ)

    def start_response(status, headers, exc_info=None):
        got["status"], got["headers"] = int(status.split()[0]), {k.lower(): v for k, v in headers}

    body = b"".join(application(environ, start_response))
    return got["status"], got["headers"], body


class MiddlewareTest(unittest.TestCase):
    def limited(self, url, **options):
        application = HeadgateMiddleware(
            shop, url=url, domain="shop", entries=lambda e: [("user", e["HTTP_X_USER"])], **options)
        self.addCleanup(application.close)
        return application


class Listener:
    """A server that answers every connection with the same bytes, or with none;
    it closes connections when it ends."""

    def __init__(self, answer):
        self.answer, self.open = answer, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()
        for connection in self.open:
            connection.close()

    def run(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            if self.answer is None:
                connection.close()
                continue
            self.open.append(connection)
            connection.sendall(self.answer)


def reply(status, body, length=None):
    return f"HTTP/1.1 {status} X\r\nContent-Length: {length or len(body)}\r\n\r\n{body}".encode()


class FailureTest(MiddlewareTest):
    def test_fail_open_and_closed(self):
        for name, answer in (
            ("a server that does not answer", b""),
            ("a server that does not finish", reply(200, '{"allowed":', 100)),
            ("a page of a proxy", reply(503, "<html>")),
            ("a refusal of the check", reply(400, '{"title":"Bad Request"}')),
            ("no object", reply(200, "[true]")),
            ("no end", reply(200, "x" * (1 << 17))),
            ("not HTTP", b"220 smtp.test ESMTP\r\n"),
            ("a hang up", None),
        ):
            with self.subTest(name), Listener(answer) as server:
                seen = []
                got = call(self.limited(server.url, timeout=0.05, observe=seen.append), "1")
                self.assertEqual((got[0], got[2]), (200, b"served"))
                self.assertEqual(len(seen), 1)
                status, headers, _ = call(self.limited(server.url, timeout=0.05, fail_closed=True), "1")
                self.assertEqual((status, headers["retry-after"]), (503, "1"))

    def test_nobody_listens(self):
        with Listener(b"") as server:
            url = server.url
        self.assertEqual(call(self.limited(url), "1")[2], b"served")


@unittest.skipUnless(os.environ.get("HEADGATE_URL"), "no Headgate")
class HeadgateTest(MiddlewareTest):
    def test_five_pass_and_the_sixth_is_told_when_to_come_back(self):
        application = self.limited(os.environ["HEADGATE_URL"], timeout=10.0)
        user = f'py "quoted" \u00e9 {os.getpid()}'
        for left in range(4, -1, -1):
            status, headers, body = call(application, user)
            self.assertEqual((status, body), (200, b"served"))
            self.assertRegex(headers["ratelimit"], rf'^"per_user";r={left};t=\d+$')
        status, headers, body = call(application, user)
        self.assertEqual((status, headers["cache-control"]), (429, "no-store"))
        self.assertGreaterEqual(int(headers["retry-after"]), 1)
        self.assertEqual(json.loads(body)["error"]["code"], "RATE_LIMITED")
        self.assertEqual(call(application, f"another {os.getpid()}")[0], 200)

    def test_a_kept_connection_that_was_closed(self):
        application = self.limited(os.environ["HEADGATE_URL"], timeout=10.0)
        self.assertIn("r=4", call(application, f"closed {os.getpid()}")[1]["ratelimit"])
        application._local.connection.sock.shutdown(socket.SHUT_RDWR)
        status, headers, _ = call(application, f"closed {os.getpid()}")
        self.assertEqual(status, 200)
        self.assertIn("r=3", headers["ratelimit"])

    def test_an_answer_that_is_lost_is_counted_once(self):
        application = self.limited(os.environ["HEADGATE_FORGETFUL_URL"], timeout=10.0)
        for left in (4, 3):
            status, headers, _ = call(application, f"lost {os.getpid()}")
            self.assertEqual(status, 200)
            self.assertIn(f"r={left}", headers["ratelimit"])


if __name__ == "__main__":
    unittest.main()
