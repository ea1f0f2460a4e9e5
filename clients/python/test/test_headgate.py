import asyncio
import concurrent.futures
import gc
import importlib.resources
import itertools
import json
import os
import pathlib
import socket
import ssl
import threading
import time
import types
import unittest
import unittest.mock
import warnings
import weakref

from headgate import AsyncHeadgate, Decision, Headgate, HeadgateError, Hold, Settled, Soft, _call, _http, _wire
from stage import ANSWERS, CA, FORGETFUL_URL, TIMEOUT, TLS_URL, TOKEN, TRANSCRIPTS, URL, Listener, reply, user

SECRET = "hgct_0123456789-never-shown"


class Awaited:
    """An AsyncHeadgate with the methods of a Headgate, each run by the same event loop."""

    def __init__(self, runner, headgate):
        self._runner, self._headgate = runner, headgate

    def __getattr__(self, name):
        method = getattr(self._headgate, name)
        return lambda *arguments: self._runner.run(method(*arguments))


def shop(**entries):
    return {"domain": "shop", "entries": entries}


def summary(d):
    """What a decision says, in the order of the recorded answers."""
    return [d.allowed, d.status, d.limit, d.remaining, d.reset_ms, d.retry_after_s, d.delay_ms, d.role,
            d.hold.id if d.hold else None, d.soft[0].header if d.soft else None, d.degraded]


class Cases:
    """What holds for both clients."""

    def make(self, url=URL, **options):
        raise NotImplementedError

    def test_five_pass(self):
        headgate, check = self.make(), shop(user=user())
        for left in range(4, -1, -1):
            got = headgate.check(check)
            self.assertEqual(
                (got.allowed, got.status, got.limit, got.remaining, got.retry_after_s, got.matched, got.degraded, got.body),
                (True, 200, 5, left, 0, True, "", None))
            self.assertRegex(got.headers["ratelimit"], rf'^"per_user";r={left};t=\d+$')
        denied = headgate.check(check)
        self.assertEqual((denied.allowed, denied.status, denied.remaining), (False, 429, 0))
        self.assertGreaterEqual(denied.retry_after_s, 1)
        self.assertEqual(denied.headers["retry-after"], str(denied.retry_after_s))
        self.assertGreater(denied.reset_ms, 0)
        self.assertEqual(denied.body.media_type, "application/problem+json")
        self.assertEqual(json.loads(denied.body.content)["status"], 429)

    def test_forms_of_a_descriptor(self):
        headgate, name = self.make(URL + "/"), f"u{os.getpid()}-{time.time_ns()}"
        left = [headgate.check(check).remaining for check in (
            shop(user=name),
            {"domain": "shop", "entries": [("user", name)], "hits": 1, "op": "hit", "client_ip": "192.0.2.1", "user_agent": "test"},
            {"domain": "shop", "descriptors": [{"entries": {"user": name}, "hits": 1}]},
            {"domain": "shop", "descriptors": [{"descriptor": f"user:{name}"}]},
        )]
        self.assertEqual(left, [4, 3, 2, 1])

    def test_op_beside_entries(self):
        headgate, check = self.make(), shop(user=user())
        headgate.check({**check, "hits": 6, "op": "charge"})
        self.assertEqual(headgate.check({**check, "hits": 0}).remaining, 0)

    def test_whatever_is_answered_becomes_a_decision(self):
        for text, degraded in (
            ("null", "store_misconfigured"), ("[]", "store_misconfigured"), ('{"allowed":1}', "store_misconfigured"), ("[" * 100_000, "store_misconfigured"),
            ('{"allowed":true,"limit":-1,"remaining":"3","reset_ms":null,"rule":7,"hold":3,"soft":[1,null,{"action":2}],"status":{}}', ""),
            ('{"allowed":false,"hold":{"id":"h"},"soft":{},"retry_after_s":1e999,"delay_ms":true}', ""),
        ):
            with Listener(reply(429, text)) as server:
                got = self.make(server.url).check(shop(user="1"))
                self.assertEqual((got.degraded, got.limit, got.retry_after_s, got.delay_ms), (degraded, None, None, 0), text[:80])

    def test_status_of_an_answer(self):
        """A denial is never passed on as a success, and only the statuses of decisions are believed."""
        for status, text, want in (
            (200, '{"allowed":false}', (False, 429, "")), (503, '{"allowed":false}', (False, 503, "")),
            (429, '{"allowed":true}', (True, 200, "")),
            (404, '{"allowed":false}', (True, 200, "store_misconfigured")), (500, '{"allowed":true}', (True, 200, "store_unavailable")),
        ):
            with Listener(reply(status, text)) as server:
                got = self.make(server.url).check(shop(user="1"))
                self.assertEqual((got.allowed, got.status, got.degraded), want, (status, text))

    def test_unmatched(self):
        got = self.make().check(shop(other="1"))
        self.assertEqual((got.allowed, got.matched, got.limit, got.degraded), (True, False, None, ""))

    def test_batch(self):
        headgate, check = self.make(), shop(user=user())
        got = headgate.check_all([check] * 6)
        self.assertEqual([(each.allowed, each.remaining) for each in got], [(True, 4), (True, 3), (True, 2), (True, 1), (True, 0), (False, 0)])
        self.assertEqual(got[5].status, 429)
        self.assertEqual(headgate.check_all([]), [])
        with self.assertRaises(HeadgateError):
            headgate.check_all([check] * 1001)
        with self.assertRaisesRegex(HeadgateError, "bytes; hint: "):
            headgate.check_all([shop(user="x" * 6000)] * 1000)

    def test_limit_of_the_caller(self):
        check = {"key": user(), "limit": 2, "window_ms": 60_000, "algorithm": "token_bucket", "burst": 2}
        with self.assertRaises(HeadgateError) as refused:
            self.make().check(check)
        self.assertEqual(refused.exception.status, 403)
        self.assertTrue(refused.exception.hint)
        headgate = self.make(token=lambda: TOKEN)
        self.assertEqual([headgate.check(check).remaining for _ in range(2)], [1, 0])
        self.assertFalse(headgate.check(check).allowed)

    def test_slot(self):
        headgate, check = self.make(), shop(slots=user())
        taken = headgate.check({**check, "hold": True})
        self.assertGreater(taken.hold.renew_within_ms, 0)
        self.assertFalse(headgate.check({**check, "hold": True}).allowed)
        held = {**check, "hold": taken.hold.id}
        self.assertEqual(headgate.renew({**held, "in_flight_ms": 10}).hold.id, taken.hold.id)
        headgate.release(held)
        self.assertTrue(headgate.check({**check, "hold": True}).allowed)

    def test_reservation(self):
        headgate, check = self.make(retries=1), shop(user=user())
        reserved = headgate.reserve({**check, "hits": 5, "ttl_ms": 60_000})
        self.assertTrue(reserved.allowed)
        commit = {"reservation": reserved.reservation, "hits": [2]}
        self.assertEqual([headgate.commit(commit).outcome for _ in range(2)], ["settled", "settled_before"])
        self.assertEqual(headgate.check({**check, "hits": 0}).remaining, 3)
        self.assertTrue(headgate.cancel(headgate.reserve({**check, "hits": 3}).reservation).settled)
        self.assertEqual(headgate.check({**check, "hits": 0}).remaining, 3)

    def test_lost_answer_is_counted_once(self):
        headgate, check = self.make(FORGETFUL_URL, retries=1), shop(user=user())
        self.assertEqual([headgate.check(check).remaining for _ in range(2)], [4, 3])
        headgate = self.make(FORGETFUL_URL, retries=1)  # without a connection that is kept
        self.assertEqual([each.remaining for each in headgate.check_all([check, {**check, "id": "mine"}])], [2, 1])

    def test_what_is_sent_again(self):
        """What was not heard, where retries say so; not what was answered."""
        refused = b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        for answer, retries, asked in ((None, 1, 2), (None, 0, 1), (refused % 401, 1, 1), (refused % 307, 1, 1)):
            with Listener(answer) as server:
                self.assertTrue(self.make(server.url, retries=retries).check(shop(user="1")).degraded)
                self.assertEqual(server.connections, asked, (answer, retries))
        for operation in ("renew", "release"):
            with Listener(None) as server:
                getattr(self.make(server.url, retries=1), operation)({**shop(user="1"), "hold": "h"})
                self.assertEqual((server.connections, b'"id"' in server.heard), (1, False), operation)

    def test_tries_share_the_time(self):
        """So that the second has some where the first gets no answer."""
        with Listener(lambda number: b"" if number == 1 else reply(200, '{"allowed":true}')) as server:
            self.assertEqual(self.make(server.url, timeout=4.0, retries=1).check(shop(user="1")).degraded, "")
            self.assertEqual(server.connections, 2)

    def test_refused(self):
        with self.assertRaises(HeadgateError) as refused:
            self.make().check({"domain": "shop", "descriptors": [{"entries": {"user": "1"}, "hits": 1.5}]})
        self.assertEqual(refused.exception.status, 400)
        self.assertIn("descriptors[0]", refused.exception.detail)

    def test_token_is_in_no_error(self):
        seen = []

        def told(reason, error):
            seen.extend([reason, str(error), str(error.__cause__), str(error.__context__)])

        def failing():
            raise ValueError(SECRET)

        check = shop(user=user())
        for token in (SECRET, lambda: SECRET + "\n", failing):
            self.assertEqual(self.make(token=token, on_degraded=told).check(check).degraded, "store_misconfigured")
        self.assertEqual(self.make("http://127.0.0.1:1", token=SECRET, on_degraded=told).check(check).degraded, "store_unavailable")
        for url, token in ((URL, SECRET + "\n"), (f"http://me:{SECRET}@h", None), (f"http://h?{SECRET}", None), (f"http://[{SECRET}", None)):
            with self.assertRaises(ValueError) as refused:
                self.make(url, token=token)
            told("", refused.exception)
        self.assertEqual(len(seen), 32)
        for text in seen:
            self.assertNotIn(SECRET, text)

    def test_options(self):
        for options in ({"timeout": 0}, {"timeout": float("nan")}, {"timeout": 1e10}, {"retries": 2}, {"failure": "local"}, {"url": "ftp://h"}, {"token": ""},
                        {"url": "http://h/a b"}, {"url": "http://h:port"}, {"url": "http://h/v1/check"}):
            with self.assertRaises(ValueError, msg=options):
                self.make(**options)

    def test_fail_open_and_closed(self):
        for name, reason, answer in (
            ("a server that does not answer", "store_timeout", b""),
            ("a server that does not finish", "store_timeout", reply(200, '{"allowed":', 100)),
            ("a page of a proxy", "store_unavailable", reply(503, "<html>")),
            ("a redirection", "store_misconfigured", b"HTTP/1.1 307 X\r\nLocation: %s/v1/check\r\nContent-Length: 0\r\n\r\n" % URL.encode()),
            ("a hang up", "store_unavailable", None),
            ("an answer without end", "store_misconfigured", reply(200, " ", _http.MAX_BODY + 1)),
            ("results that are too few", "store_misconfigured", reply(200, '{"results":[{"allowed":true}]}')),
            ("no HTTP", "store_misconfigured", b"SSH-2.0\r\n\r\n"),
        ):
            with self.subTest(name), Listener(answer) as server:
                check, timeout, seen = shop(user="1"), 0.05 if reason == "store_timeout" else TIMEOUT, []
                clock = [0.0]
                headgate = self.make(server.url, timeout=timeout, now=lambda: clock[0], on_degraded=lambda why, _: seen.append(why))
                passed = headgate.check(check)
                self.assertEqual((passed.allowed, passed.status, passed.matched, passed.degraded), (True, 200, False, reason))
                self.assertEqual([each.degraded for each in headgate.check_all([check, check])], [reason, reason])
                self.assertEqual(headgate.commit({"reservation": "r"}).outcome, "undecided")
                for clock[0], why in ((0.0, "store_breaker"), (1.0, reason), (2.9, "store_breaker"), (3.0, reason)):
                    self.assertEqual(headgate.check(check).degraded, why, clock)
                self.assertEqual(seen, [reason, reason, reason, "store_breaker", reason, "store_breaker", reason])
                denied = self.make(server.url, timeout=timeout, failure="closed").check(check)
                self.assertEqual((denied.allowed, denied.status, denied.degraded, denied.headers), (False, 503, reason, {"retry-after": "1"}))
                self.assertEqual(json.loads(denied.body.content)["status"], 503)

    def test_connections_are_kept(self):
        unlimited = reply(200, '{"allowed":true,"matched":false,"rule":"","degraded":""}')
        with Listener(unlimited) as server:
            headgate = self.make(server.url)
            self.assertEqual([headgate.check(shop(user="1")).degraded for _ in range(5)], [""] * 5)
            self.assertEqual(server.connections, 1)

    def test_connection_that_the_server_has_closed(self):
        with Listener(reply(200, '{"allowed":true}')) as server:
            headgate = self.make(server.url)
            for number in range(1, 4):
                self.assertEqual(headgate.check(shop(user="1")).degraded, "")
                server.hang_up()
            self.assertEqual(server.connections, number)


    def test_connection_that_the_server_will_close(self):
        """It is not used again, though it is still open."""
        with Listener(b'HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: 16\r\n\r\n{"allowed":true}') as server:
            headgate = self.make(server.url)
            self.assertEqual([headgate.check(shop(user="1")).degraded for _ in range(2)], ["", ""])
            self.assertEqual(server.connections, 2)

    def test_connections_that_are_kept_are_bounded(self):
        both = threading.Barrier(2)

        def answer(_):
            both.wait(TIMEOUT)  # two calls are under way
            return reply(200, '{"allowed":true}')

        with Listener(answer) as server, unittest.mock.patch(f"{self.module}.MAX_IDLE", 1):
            headgate = self.make(server.url)
            self.assertEqual([each.degraded for each in self.at_once(headgate, [shop(user="1")] * 2)], ["", ""])
            self.assertEqual((server.connections, len(self.kept(headgate))), (2, 1))

    def test_refusal_is_an_answer(self):
        """Of a server that was away too: it is asked again from then on."""
        clock = [0.0]
        with Listener(None) as server:
            headgate = self.make(server.url, now=lambda: clock[0])
            for _ in range(3):
                headgate.check(shop(user="1"))
            clock[0], server.answer = 1.0, reply(400, '{"title":"T"}')
            for _ in range(4):
                with self.assertRaises(HeadgateError):
                    headgate.check(shop(user="1"))
            server.answer = reply(200, '{"allowed":true}')
            self.assertEqual(headgate.check(shop(user="1")).degraded, "")

    def test_old_connection_is_not_used(self):
        with Listener(reply(200, '{"allowed":true}')) as server:
            headgate = self.make(server.url)
            headgate.check(shop(user="1"))
            for connection in self.kept(headgate):
                connection.used = float("-inf")
            headgate.check(shop(user="1"))
            self.assertEqual(server.connections, 2)

    def test_what_a_server_says_unasked(self):
        """Such as a 408 before it hangs up: that answers nothing that is asked next."""
        with Listener(reply(200, '{"allowed":true}')) as server:
            headgate = self.make(server.url)
            self.assertEqual(headgate.check(shop(user="1")).degraded, "")
            server.say(reply(408, ""))
            self.rest()
            self.assertEqual(headgate.check(shop(user="1")).degraded, "")
            self.assertEqual(server.connections, 2)

    def rest(self):
        """What happens between two calls."""

    def test_tls(self):
        """By the authorities that are given, and the name of the host."""
        context, check = ssl.create_default_context(cafile=CA), shop(user=user())
        headgate = self.make(TLS_URL, ssl_context=context)
        self.assertEqual(headgate.check(check).remaining, 4)
        kept = self.kept(headgate)
        self.assertEqual(headgate.check(check).remaining, 3)
        self.assertEqual(self.kept(headgate), kept)
        self.assertEqual(self.make(TLS_URL).check(check).degraded, "store_unavailable")
        self.assertEqual(self.make(TLS_URL.replace("localhost", "127.0.0.1"), ssl_context=context).check(check).degraded, "store_unavailable")

    def test_token_is_asked_for_by_each_call(self):
        tokens = iter([SECRET, TOKEN])
        headgate = self.make(token=lambda: next(tokens))
        self.assertEqual([headgate.check(shop(user=user())).degraded for _ in range(2)], ["store_misconfigured", ""])

    def test_what_is_sent(self):
        told = shop(user="\u00e9\u2028")
        with Listener(reply(200, '{"results":[]}')) as server:
            self.make(server.url + "/base/", token="t", retries=1).check_all([{**told, "attributes": {"claim:userId": "1"}}, {**told, "id": "mine"}, told])
            head, _, body = server.heard.partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"POST /base/v1/check HTTP/1.1\r\nHost: %s\r\n" % server.url.removeprefix("http://").encode()), head)
            self.assertIn(b"\r\nAuthorization: Bearer t", head)
            checks = json.loads(body)["checks"]
            first, mine, last = [check.pop("id") for check in checks]
            self.assertEqual((mine, len(first), len(last)), ("mine", 22, 22))
            self.assertNotEqual(first, last)
            descriptors = [{"entries": [{"key": "user", "value": "\u00e9\u2028"}]}]
            self.assertEqual(checks[0], {"domain": "shop", "attributes": {"claim:userId": "1"}, "descriptors": descriptors})
            self.make(server.url).check(told)
            self.assertNotIn(b'"id"', server.heard)

    def test_what_is_a_refusal(self):
        problem = '{"title":"T","detail":"D","hint":"H"}'
        for status in (400, 403, 409, 410, 413, 415, 501):
            with Listener(reply(status, problem)) as server, self.assertRaises(HeadgateError, msg=status) as refused:
                self.make(server.url, retries=1).check(shop(user="1"))
            error = refused.exception
            self.assertEqual((error.status, error.title, error.detail, error.hint), (status, "T", "D", "H"))
        for status, degraded in ((401, "store_misconfigured"), (404, "store_misconfigured"), (408, "store_misconfigured"),
                                 (500, "store_unavailable"), (502, "store_unavailable"), (504, "store_unavailable")):
            with Listener(reply(status, problem)) as server:
                self.assertEqual(self.make(server.url).check(shop(user="1")).degraded, degraded, status)


class HeadgateTest(Cases, unittest.TestCase):
    def make(self, url=URL, timeout=TIMEOUT, **options):
        headgate = Headgate(url, timeout=timeout, **options)
        self.addCleanup(headgate.close)
        return headgate

    module = "headgate._sync"

    def kept(self, headgate):
        return list(headgate._idle)

    def at_once(self, headgate, checks):
        with concurrent.futures.ThreadPoolExecutor(len(checks)) as threads:
            return list(threads.map(headgate.check, checks))

    def test_time_is_that_of_the_whole_call(self):
        """However much of an answer comes meanwhile, and with a second try. Each look at the
        clock takes a second here."""
        for retries in (0, 1):
            ticks = itertools.count()
            clock = types.SimpleNamespace(monotonic=lambda: float(next(ticks)))
            with Listener(reply(200, '{"allowed":true}'.ljust(_http.MAX_BODY))) as server, unittest.mock.patch("headgate._sync.time", clock):
                self.assertEqual(self.make(server.url, timeout=30, retries=retries).check(shop(user="1")).degraded, "store_timeout")
            self.assertLess(next(ticks), 40, retries)

    def test_next_address_of_the_host(self):
        with Listener(reply(200, '{"allowed":true}')) as server:
            port = int(server.url.rpartition(":")[2])
            addresses = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", each)) for each in (1, port)]
            headgate = self.make(server.url)
            with unittest.mock.patch("headgate._sync.socket.getaddrinfo", return_value=addresses):
                self.assertEqual(headgate.check(shop(user="1")).degraded, "")
            self.assertTrue(headgate._idle[0]._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    def test_close(self):
        with Listener(reply(200, '{"allowed":true}')) as server:
            headgate = self.make(server.url)
            for _ in range(2):
                headgate.check(shop(user="1"))
                headgate.close()
            self.assertEqual((server.connections, self.kept(headgate)), (2, []))

    def test_probe_that_is_given_up(self):
        """The server is asked again: that says nothing about it."""
        clock, interrupted = [0.0], False

        def token():
            if interrupted:
                raise KeyboardInterrupt
            return "t"

        with Listener(None) as server:
            headgate = self.make(server.url, token=token, now=lambda: clock[0])
            for _ in range(3):
                headgate.check(shop(user="1"))
            clock[0], interrupted = 1.0, True
            with self.assertRaises(KeyboardInterrupt):
                headgate.check(shop(user="1"))
            interrupted = False
            self.assertEqual(headgate.check(shop(user="1")).degraded, "store_unavailable")

    def test_old_connections_are_closed(self):
        """Also those that nobody would come to, because the one used last is taken first."""
        with Listener(reply(200, '{"allowed":true}')) as server:
            headgate = self.make(server.url)
            headgate.check(shop(user="1"))
            old = headgate._idle.pop()
            headgate.check(shop(user="1"))
            old.used = float("-inf")
            headgate._idle.appendleft(old)
            headgate.check(shop(user="1"))
            self.assertEqual((len(headgate._idle), old._socket.fileno(), server.connections), (1, -1, 2))

    def test_fork(self):
        with Listener(reply(200, '{"allowed":true}')) as server:
            headgate = self.make(server.url)
            headgate.check(shop(user="1"))
            child = os.fork()
            if child == 0:
                os._exit(0 if headgate.check(shop(user="1")).degraded == "" else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(headgate.check(shop(user="1")).degraded, "")
            self.assertEqual(server.connections, 2, "the child has one of its own, the parent keeps its own")


class AsyncHeadgateTest(Cases, unittest.TestCase):
    def setUp(self):
        self.runner = asyncio.Runner()
        self.addCleanup(self.runner.close)

    def make(self, url=URL, timeout=TIMEOUT, **options):
        headgate = AsyncHeadgate(url, timeout=timeout, **options)
        self.addCleanup(lambda: self.runner.run(headgate.aclose()))
        return Awaited(self.runner, headgate)

    module = "headgate._asyncio"

    def at_once(self, headgate, checks):
        async def ask():
            return await asyncio.gather(*map(headgate._headgate.check, checks))

        return self.runner.run(ask())

    def kept(self, headgate):
        return [each for idle in headgate._headgate._idle.values() for each in idle]

    def rest(self):
        self.runner.run(asyncio.sleep(0))

    def test_time_is_that_of_the_whole_call(self):
        """However much of an answer comes meanwhile, and with a second try. Each look at the
        clock takes a second here."""
        class Hurried(asyncio.SelectorEventLoop):
            def time(self):
                self.at = getattr(self, "at", 0.0) + 1.0
                return self.at

        async def ask(url, retries):
            loop = asyncio.get_running_loop()
            start = loop.at
            with unittest.mock.patch("headgate._asyncio.time", types.SimpleNamespace(monotonic=lambda: loop.at)):
                async with AsyncHeadgate(url, timeout=16, retries=retries) as headgate:
                    degraded = (await headgate.check(shop(user="1"))).degraded
            return degraded, loop.at - start

        with Listener(reply(200, '{"allowed":true}'.ljust(_http.MAX_BODY))) as server, asyncio.Runner(loop_factory=Hurried) as runner:
            for retries in (0, 1):
                degraded, seconds = runner.run(ask(server.url, retries))
                self.assertEqual(degraded, "store_timeout")
                self.assertLess(seconds, 26, retries)

    def test_close(self):
        with Listener(reply(200, '{"allowed":true}')) as server:
            headgate = self.make(server.url)
            for _ in range(2):
                headgate.check(shop(user="1"))
                headgate.aclose()
            self.assertEqual((server.connections, self.kept(headgate)), (2, []))

    def test_probe_that_is_given_up(self):
        """The server is asked again: that says nothing about it."""
        clock = [0.0]

        async def give_up(headgate):
            task = asyncio.create_task(headgate.check(shop(user="1")))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

        with Listener(None) as server:
            headgate = self.make(server.url, now=lambda: clock[0])
            for _ in range(3):
                headgate.check(shop(user="1"))
            clock[0], server.answer = 1.0, b""
            self.runner.run(give_up(headgate._headgate))
            server.answer = None
            self.assertEqual(headgate.check(shop(user="1")).degraded, "store_unavailable")

    def test_many_at_once_and_loops_apart(self):
        headgate, check = AsyncHeadgate(URL, timeout=TIMEOUT), shop(user=user())

        async def ask():
            got = await asyncio.gather(*(headgate.check(check) for _ in range(3)))
            await headgate.aclose()
            return {each.remaining for each in got}

        self.assertEqual(asyncio.run(ask()) | asyncio.run(ask()), {4, 3, 2, 1, 0})

    def test_old_connections_are_closed(self):
        async def ask(headgate):
            await headgate.check(shop(user="1"))
            idle = headgate._kept()
            old = idle.pop()
            await headgate.check(shop(user="1"))
            old.used = float("-inf")
            idle.appendleft(old)
            await headgate.check(shop(user="1"))
            self.assertEqual((len(idle), old._writer.is_closing(), server.connections), (1, True, 2))
            await headgate.aclose()

        with Listener(reply(200, '{"allowed":true}')) as server:
            self.runner.run(ask(AsyncHeadgate(server.url, timeout=TIMEOUT)))

    def test_loops_that_end_are_forgotten(self):
        with Listener(reply(200, '{"allowed":true}')) as server:
            headgate = AsyncHeadgate(server.url, timeout=TIMEOUT)
            loops = []

            async def ask():
                loops.append(weakref.ref(asyncio.get_running_loop()))
                return (await headgate.check(shop(user="1"))).degraded

            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # of connections that nobody has closed
                self.assertEqual([asyncio.run(ask()) for _ in range(4)], [""] * 4)
                gc.collect()
                self.assertEqual([loop() for loop in loops[:-1]], [None] * 3)
                del headgate
                gc.collect()

    def test_cancelled(self):
        async def give_up(headgate):
            task = asyncio.create_task(headgate.check(shop(user="1")))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        with Listener(b"") as server:
            headgate = AsyncHeadgate(server.url, timeout=TIMEOUT)
            for _ in range(4):  # given up is not failed: the server is asked each time
                self.runner.run(give_up(headgate))


class RecordedTest(unittest.TestCase):
    def test_recorded_answers(self):
        want = json.loads(pathlib.Path(ANSWERS).read_text())
        asking = Headgate("http://recorded")._asking

        def read(call, status, fields, text):
            answer = _http.Answer()
            answer.feed(f"HTTP/1.1 {status} X\r\n{fields}\r\nContent-Length: {len(text.encode())}\r\n\r\n{text}".encode())
            return asking.result(call, answer)

        domains = []
        for file in sorted(pathlib.Path(TRANSCRIPTS).iterdir()):
            request, head, text = file.read_text().split("\n\n")[:3]
            status, _, fields = head.partition("\n")
            fields = fields.replace("\n", "\r\n")
            if file.stem == "batch":
                domains = [check["domain"] for check in json.loads(request.split("\n")[1])["checks"]]
                got = read(asking.check_all([shop(user="42")] * len(domains)), status, fields, text)
                self.assertEqual({domain: summary(each) for domain, each in zip(domains, got)}, {domain: want[domain] for domain in domains})
                continue
            call = asking.check("check", shop(user="42"), 0)
            if file.stem in want:
                self.assertEqual(summary(read(call, status, fields, text)), want[file.stem], file.stem)
            else:
                with self.assertRaises(_call.HeadgateError, msg=file.stem):
                    read(call, status, fields, text)
        self.assertGreater(len(domains), 10)


class MembersTest(unittest.TestCase):
    def test_of_a_decision(self):
        told = json.loads("""{"allowed":false,"matched":true,"limit":9,"remaining":8,"reset_ms":7,"window_ends_ms":6,"retry_after_s":5,
            "delay_ms":4,"rule":"r","role":"ban","tier":"gold","source":"override","hold":{"id":"h","renew_within_ms":3},
            "soft":[{"action":"warn","rule":"s","name":"n","percent":80,"limit":2,"remaining":1,"delay_ms":10,"header":"X-H","value":"v","challenge":"c"}],
            "degraded":"store_full","reservation":"v","expires_at":"2026-01-01T00:00:00Z","name":"n","window_s":60,"status":503,"later":{}}""")
        self.assertEqual(_wire.decode_decision(told), Decision(
            allowed=False, matched=True, limit=9, remaining=8, reset_ms=7, window_ends_ms=6, retry_after_s=5, delay_ms=4,
            rule="r", role="ban", tier="gold", source="override", hold=Hold("h", 3),
            soft=(Soft("warn", "s", 80, 2, 1, "n", 10, "X-H", "v", "c"),),
            degraded="store_full", reservation="v", expires_at="2026-01-01T00:00:00Z", name="n", window_s=60, status=503))

    def test_of_a_settlement(self):
        told = {"settled": True, "outcome": "settled", "limit": 9, "remaining": 8, "reset_ms": 7, "window_ends_ms": 6, "rule": "r", "degraded": "d", "later": 1}
        self.assertEqual(_wire.decode_settled(told), Settled(True, "settled", 9, 8, 7, 6, "r", "d"))

    def test_of_a_header(self):
        fields = ("ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "x-ratelimit-limit",
                  "x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-warning", "retry-after")
        passed = {name: name for name in fields}
        self.assertEqual(_wire.passed_on({**passed, "set-cookie": "a", "content-length": "1", "date": "now"}), passed)


class TypesTest(unittest.TestCase):
    def test_marker(self):
        self.assertTrue(importlib.resources.files("headgate").joinpath("py.typed").is_file())
