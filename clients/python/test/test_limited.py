import email.message
import email.utils
import io
import json
import os
import time
import unittest
import urllib.error
import urllib.request

from headgate import Level, LimitedClient, WaitError, levels, retry_after
from stage import TIMEOUT, Listener


def fields(**lines):
    message = email.message.Message()
    for name, value in lines.items():
        message[name.replace("_", "-")] = value
    return message


class Scripted:
    """An opener that answers by a function, and a clock: time passes in sleep."""

    def __init__(self, answer, **options):
        self.answer, self.time, self.at, self.bodies, self.refusals = answer, 0.0, [], [], []
        self.client = LimitedClient(opener=self, now=lambda: self.time, sleep=self.sleep, **{"rand": lambda: 0.0, **options})

    def sleep(self, seconds):
        self.time += seconds

    def open(self, request, timeout):
        self.at.append(self.time)
        self.bodies.append(request.data)
        status, headers = self.answer(len(self.at) - 1)
        if status >= 400:
            self.refusals.append(io.BytesIO(b"body"))
            raise urllib.error.HTTPError(request.full_url, status, "", headers, self.refusals[-1])
        response = urllib.request.addinfourl(io.BytesIO(b"body"), headers, request.full_url, status)
        return response

    def get(self, url="http://api.test/", **kwargs):
        try:
            with self.client.open(urllib.request.Request(url, **kwargs)) as response:
                return response.status
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code


class ReadingTest(unittest.TestCase):
    def test_levels_of_every_generation(self):
        now = int(time.time())
        date = email.utils.formatdate(now, usegmt=True)
        for headers in (
            fields(RateLimit_Policy='"default";q=100;w=60, "writes";q=20;w=60', RateLimit='"writes";r=17;t=42'),
            fields(RateLimit="limit=20, remaining=17, reset=42"),
            fields(RateLimit_Limit="20;window=60", RateLimit_Remaining="17", RateLimit_Reset="42"),
            fields(X_RateLimit_Limit="20, 20;w=60", X_RateLimit_Remaining="17", X_RateLimit_Reset="42"),
            fields(X_RateLimit_Limit="20", X_RateLimit_Remaining="17", X_RateLimit_Reset=str(now + 42), Date=date),
        ):
            self.assertEqual(levels(headers), [Level(17, 20, 42.0)], headers.items())
        for headers in (
            fields(), fields(RateLimit='"a";r=1, "b'), fields(RateLimit='"a";t=1'), fields(RateLimit='"a";r=-1'),
            fields(RateLimit='"a";r=1;t=1', Age="5"), fields(X_RateLimit_Remaining="many"),
            fields(RateLimit='"a";r=1', RateLimit_Policy='"a";q=9;qu="content-bytes"'),
        ):
            self.assertEqual(levels(headers), [], headers.items())

    def test_no_reset_is_farther_than_a_window(self):
        for headers in (fields(RateLimit='"a";r=0;t=999999999999'), fields(RateLimit="limit=1, remaining=0, reset=999999999999")):
            self.assertEqual([level.reset for level in levels(headers)], [366 * 24 * 3600], headers.items())

    def test_retry_after(self):
        self.assertEqual(retry_after(fields(Retry_After="42")), 42)
        date = "Tue, 23 Jan 2024 09:54:20 GMT"
        self.assertEqual(retry_after(fields(Retry_After=date, Date="Tue, 23 Jan 2024 09:53:38 GMT")), 42)
        self.assertEqual(retry_after(fields(Retry_After=date)), 0)
        self.assertEqual(retry_after(fields(Retry_After="999999999999")), 366 * 24 * 3600)
        for junk in ("-1", "soon", "1e9", "", "٣"):
            self.assertIsNone(retry_after(fields(Retry_After=junk)))


class ClientTest(unittest.TestCase):
    def test_retries_when_the_server_says(self):
        s = Scripted(lambda n: (429, fields(Retry_After="3")) if n == 0 else (200, fields()))
        self.assertEqual(s.get(method="PUT", data=b"data"), 200)
        self.assertEqual(s.at, [0, 3])
        self.assertEqual(s.bodies, [b"data", b"data"])

    def test_comes_back_late_rather_than_early(self):
        for told, want in (("3", 3.3), ("20", 21.0)):
            s = Scripted(lambda n: (429, fields(Retry_After=told)) if n == 0 else (200, fields()), rand=lambda: 1.0)
            self.assertEqual((s.get(), s.at), (200, [0, want]))

    def test_a_shorter_word_takes_back_no_longer_one(self):
        """Of two that are refused at one time, the one that is heard last may name the shorter wait."""
        def answer(n):
            if n == 0:
                self.assertEqual(s.get(), 429)
            return (429, fields(Retry_After="5" if n == 0 else "20"))

        s = Scripted(answer, max_wait=10.0)
        with self.assertRaises(WaitError):
            s.get()
        self.assertEqual(len(s.at), 2)

    def test_refusals_hold_no_connection(self):
        s = Scripted(lambda n: (503, fields()) if n < 2 else (200, fields()))
        self.assertEqual(s.get(), 200)
        self.assertEqual([body.closed for body in s.refusals], [True, True])

    def test_backs_off_without_a_word_of_the_server(self):
        s = Scripted(lambda n: (503, fields()))
        self.assertEqual(s.get(), 503)
        self.assertEqual([round(t * 1000) for t in s.at], [0, 50, 150, 350])

    def test_sends_once_what_is_not_idempotent(self):
        s = Scripted(lambda n: (503, fields()))
        s.get(data=b"x")
        self.assertEqual(len(s.at), 1)
        s.get(data=b"x", headers={"Idempotency-Key": "1"})
        self.assertEqual(len(s.at), 5)
        s.get(method="PUT", data=io.BytesIO(b"x"))
        self.assertEqual(len(s.at), 6)

    def test_retry_budget(self):
        s = Scripted(lambda n: (503, fields()))
        for _ in range(1000):
            s.get()
        self.assertTrue(50 < len(s.at) - 1000 <= 111, len(s.at))

    def test_what_is_too_far_away_is_not_asked(self):
        s = Scripted(lambda n: (429, fields(Retry_After="31")) if n == 0 else (200, fields()))
        self.assertEqual(s.get(), 429)
        with self.assertRaises(WaitError):
            s.get()
        self.assertEqual(s.get("http://other.test/"), 200)
        s.time += 2
        self.assertEqual(s.get(), 200)
        self.assertEqual(s.time, 31)

    def test_only_refusals_hold_back(self):
        s = Scripted(lambda n: (202, fields(Retry_After="31")))
        self.assertEqual((s.get(), s.get(), s.at), (202, 202, [0, 0]))

    def test_spellings_of_an_origin(self):
        s = Scripted(lambda n: (429, fields(Retry_After="31")))
        self.assertEqual(s.get("http://api.test/a"), 429)
        for url in ("HTTP://API.test/b", "http://api.test:80/c", "http://me:secret@api.test/d"):
            with self.assertRaisesRegex(WaitError, "^rate limit of http://api.test: ", msg=url):
                s.get(url)
        self.assertEqual(s.get("http://api.test:8080/"), 429)

    def test_origins_that_were_used_last_are_known(self):
        s = Scripted(lambda n: (429, fields(Retry_After="31")) if n == 0 else (200, fields()))
        self.assertEqual(s.get(), 429)
        for round_ in range(2):
            for number in range(999):
                s.get(f"http://{round_}-{number}.test/")
            with self.assertRaises(WaitError):
                s.get()
        for number in range(1000):
            s.get(f"http://2-{number}.test/")
        self.assertEqual(s.get(), 200)

    def test_other_errors_pass(self):
        for status in (404, 500, 502):
            s = Scripted(lambda n, status=status: (status, fields(Retry_After="1")))
            self.assertEqual(s.get(), status)
            self.assertEqual(len(s.at), 1, status)

    def test_spreads_before_the_limit(self):
        window = {"used": 0, "end": 0.0, "refused": 0}

        def answer(_):
            if s.time >= window["end"]:
                window.update(used=0, end=s.time + 60)
            status = 429 if window["used"] == 100 else 200
            window["used" if status == 200 else "refused"] += 1
            left, reset = 100 - window["used"], int(-(-(window["end"] - s.time) // 1))
            return status, fields(RateLimit_Policy='"a";q=100;w=60', RateLimit=f'"a";r={left};t={reset}')

        s = Scripted(answer)
        for _ in range(250):
            self.assertEqual(s.get(), 200)
        self.assertEqual(window["refused"], 0)
        self.assertTrue(100 < s.time < 180, s.time)

    def test_against_headgate(self):
        waits = []
        client = LimitedClient(pace_below=0.0, observe=lambda kind, seconds: waits.append(seconds))
        check = {"domain": "shop", "descriptors": [{"entries": [{"key": "steady", "value": f"py-{os.getpid()}"}]}]}
        asked = 0
        while not waits:  # where this machine is slow, several pass without one
            asked += 1
            request = urllib.request.Request(
                os.environ["HEADGATE_URL"] + "/v1/check", json.dumps(check).encode(),
                {"Content-Type": "application/json", "Idempotency-Key": str(asked)})
            with client.open(request) as response:
                self.assertTrue(json.load(response)["allowed"])
        self.assertGreater(asked, 1)


class RefusalTest(unittest.TestCase):
    def test_body_that_is_cut_off_or_slow(self):
        """What a refusal says is in its head: its body hinders nothing."""
        head = b"HTTP/1.1 429 X\r\nRetry-After: 0\r\n"
        for answer in (head + b"Transfer-Encoding: chunked\r\n\r\n64\r\ncut", head + b"Content-Length: 100\r\n\r\nslow"):
            with Listener(answer) as server:
                client = LimitedClient(max_retries=1, sleep=lambda _: None)
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    client.open(server.url, timeout=TIMEOUT)
                refused.exception.close()
                self.assertEqual((refused.exception.code, server.connections), (429, 2))

    def test_wait_is_rounded_up(self):
        self.assertEqual(str(WaitError("http://api.test", 0.2)), "rate limit of http://api.test: the next request may pass in 1 s")


if __name__ == "__main__":
    unittest.main()
