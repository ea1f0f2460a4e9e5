import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import type { RequestListener } from "node:http";
import { join } from "node:path";
import { test } from "node:test";

import { Headgate, HeadgateError, type Check, type Decision, type HeadgateOptions, type Reason } from "@headgate/client";
import { answers, forgetfulUrl, timeoutMs, token, transcripts, url, user, withServer } from "./stage.mjs";

test("five pass, the sixth is told when to come back", async () => {
  const headgate = new Headgate({ url, timeoutMs }), check: Check = { domain: "shop", entries: { user: user() } };
  for (let left = 4; left >= 0; left--) {
    const got = await headgate.check(check);
    assert.equal(got.allowed, true);
    assert.deepEqual([got.status, got.limit, got.remaining, got.retryAfterS, got.matched, got.degraded], [200, 5, left, 0, true, ""]);
    assert.match(String(got.headers["ratelimit"]), new RegExp(`^"per_user";r=${left};t=\\d+$`));
    assert.equal(got.body, undefined);
  }
  const denied = await headgate.check(check);
  assert.deepEqual([denied.allowed, denied.status, denied.remaining], [false, 429, 0]);
  assert.ok((denied.retryAfterS ?? 0) >= 1);
  assert.equal(denied.headers["retry-after"], String(denied.retryAfterS));
  assert.ok((denied.resetMs ?? 0) > 0);
  assert.equal(denied.body?.mediaType, "application/problem+json");
  assert.equal(JSON.parse(denied.body.text).status, 429);
});

test("entries and descriptors in each form are the same bucket", async () => {
  const headgate = new Headgate({ url: `${url}/`, timeoutMs }), name = `u${process.pid}-${Date.now()}`;
  const forms: Check[] = [
    { domain: "shop", entries: { user: name } },
    { domain: "shop", entries: [["user", name]], hits: 1, op: "hit", clientIp: "192.0.2.1", userAgent: "test" },
    { domain: "shop", descriptors: [{ entries: { user: name }, hits: 1 }] },
    { domain: "shop", descriptors: [{ descriptor: `user:${name}` }] },
  ];
  const left = [];
  for (const form of forms) left.push((await headgate.check(form)).remaining);
  assert.deepEqual(left, [4, 3, 2, 1]);
});

test("an op beside entries holds for them", async () => {
  const headgate = new Headgate({ url, timeoutMs }), check: Check = { domain: "shop", entries: { user: user() } };
  await headgate.check({ ...check, hits: 6, op: "charge" });
  assert.equal((await headgate.check({ ...check, hits: 0 })).remaining, 0);
});

test("whatever is answered becomes a decision", async () => {
  for (const [text, degraded] of [
    ["null", "store_misconfigured"], ["[]", "store_misconfigured"], ['{"allowed":1}', "store_misconfigured"], ["[".repeat(100_000), "store_misconfigured"],
    ['{"allowed":true,"limit":-1,"remaining":"3","reset_ms":null,"rule":7,"hold":3,"soft":[1,null,{"action":2}],"status":{}}', ""],
    ['{"allowed":false,"hold":{"id":"h"},"soft":{},"retry_after_s":1e999,"delay_ms":true}', ""],
  ] as const) {
    const got = await new Headgate({ url: "http://answers", fetch: async () => new Response(text, { status: 429 }) }).check({ domain: "d", entries: { a: "b" } });
    assert.deepEqual([got.degraded, got.limit, got.retryAfterS, got.delayMs], [degraded, undefined, undefined, 0], text.slice(0, 80));
  }
});

test("a denial is never passed on as a success, and only the statuses of decisions are believed", async () => {
  for (const [status, text, want] of [
    [200, '{"allowed":false}', [false, 429, ""]], [503, '{"allowed":false}', [false, 503, ""]],
    [429, '{"allowed":true}', [true, 200, ""]],
    [404, '{"allowed":false}', [true, 200, "store_misconfigured"]], [500, '{"allowed":true}', [true, 200, "store_unavailable"]],
  ] as const) {
    const got = await new Headgate({ url: "http://answers", fetch: async () => new Response(text, { status }) }).check({ domain: "d", entries: { a: "b" } });
    assert.deepEqual([got.allowed, got.status, got.degraded], want, `${status} ${text}`);
  }
});

test("what no rule matches passes unmatched", async () => {
  const got = await new Headgate({ url, timeoutMs }).check({ domain: "shop", entries: { other: "1" } });
  assert.deepEqual([got.allowed, got.matched, got.limit, got.degraded], [true, false, undefined, ""]);
});

test("a batch is decided in its order", async () => {
  const headgate = new Headgate({ url, timeoutMs }), check: Check = { domain: "shop", entries: { user: user() } };
  const got = await headgate.checkAll(Array.from({ length: 6 }, () => check));
  assert.deepEqual(got.map((each) => [each.allowed, each.remaining]), [[true, 4], [true, 3], [true, 2], [true, 1], [true, 0], [false, 0]]);
  assert.equal(got[5]?.status, 429);
  assert.deepEqual(await headgate.checkAll([]), []);
  await assert.rejects(headgate.checkAll(Array.from({ length: 1001 }, () => check)), HeadgateError);
});

test("a limit of the caller takes a token", async () => {
  const check: Check = { key: user(), limit: 2, windowMs: 60_000, algorithm: "token_bucket", burst: 2 };
  await assert.rejects(new Headgate({ url, timeoutMs }).check(check), (error: unknown) =>
    error instanceof HeadgateError && error.status === 403 && error.hint !== "");
  const headgate = new Headgate({ url, timeoutMs, token: () => token });
  assert.deepEqual([(await headgate.check(check)).remaining, (await headgate.check(check)).remaining], [1, 0]);
  assert.equal((await headgate.check(check)).allowed, false);
});

test("a slot is taken, renewed and released", async () => {
  const headgate = new Headgate({ url, timeoutMs }), check: Check = { domain: "shop", entries: { slots: user() } };
  const taken = await headgate.check({ ...check, hold: true });
  assert.ok(taken.hold !== undefined && taken.hold.renewWithinMs > 0);
  const hold = taken.hold.id;
  assert.equal((await headgate.check({ ...check, hold: true })).allowed, false);
  assert.equal((await headgate.renew({ ...check, hold, inFlightMs: 10 })).hold?.id, hold);
  await headgate.release({ ...check, hold });
  assert.equal((await headgate.check({ ...check, hold: true })).allowed, true);
});

test("a reservation is settled by what was used", async () => {
  const headgate = new Headgate({ url, timeoutMs, retries: 1 }), entries = { user: user() };
  const reserved = await headgate.reserve({ domain: "shop", entries, hits: 5, ttlMs: 60_000 });
  assert.equal(reserved.allowed, true);
  const reservation = String(reserved.reservation);
  assert.equal((await headgate.commit({ reservation, hits: [2] })).outcome, "settled");
  assert.equal((await headgate.commit({ reservation, hits: [2] })).outcome, "settled_before");
  assert.equal((await headgate.check({ domain: "shop", entries, hits: 0 })).remaining, 3);
  const other = await headgate.reserve({ domain: "shop", entries, hits: 3 });
  assert.equal((await headgate.cancel(String(other.reservation))).settled, true);
  assert.equal((await headgate.check({ domain: "shop", entries, hits: 0 })).remaining, 3);
});

test("an answer that is lost is counted once", async () => {
  const headgate = new Headgate({ url: forgetfulUrl, timeoutMs, retries: 1 }), entries = { user: user() };
  for (const left of [4, 3]) assert.equal((await headgate.check({ domain: "shop", entries })).remaining, left);
  let asked = 0;
  const losing: typeof fetch = async (input, init) => { // what is kept of connections there loses nothing more
    const response = await fetch(input, init);
    if (asked++ > 0) return response;
    await response.arrayBuffer();
    throw new TypeError("lost");
  };
  const both = await new Headgate({ url, timeoutMs, retries: 1, fetch: losing }).checkAll([{ domain: "shop", entries }, { domain: "shop", entries, id: "mine" }]);
  assert.equal(asked, 2);
  assert.deepEqual(both.map((each) => each.remaining), [2, 1]);
});

test("what the server refuses is an error with its place", async () => {
  await assert.rejects(new Headgate({ url, timeoutMs }).check({ domain: "shop", descriptors: [{ entries: { user: "1" }, hits: 1.5 }] }), (error: unknown) =>
    error instanceof HeadgateError && error.status === 400 && error.detail.includes("descriptors[0]"));
});

test("a check that cannot be written is an error, and no failure of the server", async () => {
  const headgate = new Headgate({ url, timeoutMs }), entries = { user: user() };
  for (let i = 0; i < 4; i++) await assert.rejects(headgate.check({ domain: "shop", entries, hits: 1n as unknown as number }), TypeError);
  assert.equal((await headgate.check({ domain: "shop", entries })).remaining, 4);
});

const secret = "hgct_0123456789-never-shown";

test("the token stands in no error", async () => {
  const seen: string[] = [];
  const told = (error: unknown): void => { seen.push(String(error), String((error as Error).cause ?? "")); };
  const onDegraded = (reason: Reason, error: Error): void => { seen.push(reason); told(error); };
  const check: Check = { domain: "shop", entries: { user: user() } };
  const unknown = await new Headgate({ url, timeoutMs, token: secret, onDegraded }).check(check);
  assert.deepEqual([unknown.allowed, unknown.degraded], [true, "store_misconfigured"]);
  assert.equal((await new Headgate({ url, timeoutMs, token: () => `${secret}\n`, onDegraded }).check(check)).degraded, "store_misconfigured");
  assert.equal((await new Headgate({ url: "http://127.0.0.1:1", timeoutMs, token: secret, onDegraded }).check(check)).degraded, "store_unavailable");
  for (const bad of [{ url, token: `${secret}\n` }, { url: `http://me:${secret}@h` }, { url: `http://h?${secret}` }, { url: `${secret} and no url` }]) {
    assert.throws(() => new Headgate(bad), (error: unknown) => { told(error); return error instanceof TypeError; });
  }
  assert.ok(seen.length >= 13);
  for (const text of seen) assert.ok(!text.includes(secret), text);
});

test("options that cannot be used are refused", () => {
  for (const bad of [{ timeoutMs: 0 }, { timeoutMs: NaN }, { retries: 2 }, { failure: "local" }, { url: "ftp://h" }, { token: "" }, { url: "http://h/v1/check/" }]) {
    assert.throws(() => new Headgate({ url, ...bad } as HeadgateOptions), TypeError, JSON.stringify(bad));
  }
});

for (const [name, reason, listener] of [
  ["a server that does not answer", "store_timeout", () => {}],
  ["a server that does not finish", "store_timeout", (_, res) => { res.write('{"allowed":'); }],
  ["a page of a proxy", "store_unavailable", (_, res) => { res.statusCode = 503; res.end("<html>"); }],
  ["a redirection", "store_misconfigured", (_, res) => { res.writeHead(307, { location: `${url}/v1/check` }); res.end(); }],
  ["a hang up", "store_unavailable", (req) => { req.socket.destroy(); }],
  ["an answer without end", "store_misconfigured", (_, res) => { res.end(`{"allowed":true${" ".repeat(4 << 20)}}`); }],
  ["results that are too few", "store_misconfigured", (_, res) => { res.end('{"results":[{"allowed":true}]}'); }],
] as [string, Reason, RequestListener][]) {
  test(`fail open and closed: ${name}`, async () => {
    await withServer(listener, async (address) => {
      const check: Check = { domain: "shop", entries: { user: "1" } }, slow = reason === "store_timeout" ? 50 : timeoutMs;
      const seen: Reason[] = [];
      let time = 0;
      const open = new Headgate({ url: address, timeoutMs: slow, now: () => time, onDegraded: (why) => seen.push(why) });
      const passed = await open.check(check);
      assert.deepEqual([passed.allowed, passed.status, passed.matched, passed.degraded], [true, 200, false, reason]);
      assert.deepEqual((await open.checkAll([check, check])).map((each) => each.degraded), [reason, reason]);
      assert.equal((await open.commit({ reservation: "r" })).outcome, "undecided");
      assert.equal((await open.check(check)).degraded, "store_breaker", "the server is left alone after three failures");
      time = 1000; // then it is asked again, and for twice as long left alone
      assert.equal((await open.check(check)).degraded, reason);
      time = 2999;
      assert.equal((await open.check(check)).degraded, "store_breaker");
      time = 3000;
      assert.equal((await open.check(check)).degraded, reason);
      assert.deepEqual(seen, [reason, reason, reason, "store_breaker", reason, "store_breaker", reason]);
      const denied = await new Headgate({ url: address, timeoutMs: slow, failure: "closed" }).check(check);
      assert.deepEqual([denied.allowed, denied.status, denied.degraded, denied.headers], [false, 503, reason, { "retry-after": "1" }]);
      assert.equal(JSON.parse(denied.body?.text ?? "").status, 503);
    });
  });
}

/** A Headgate that is answered as told, or hears nothing, and its clock. */
function scripted(options: Partial<HeadgateOptions> = {}) {
  const s = { time: 0, answer: 200 as number | undefined, asked: 0, check: async () => "" as string };
  const headgate = new Headgate({
    url, timeoutMs, now: () => s.time, ...options,
    fetch: async () => {
      s.asked++;
      if (s.answer === undefined) throw new Error("away");
      return new Response('{"allowed":true}', { status: s.answer });
    },
  });
  s.check = async () => (await headgate.check({ domain: "shop", entries: { user: "1" } })).degraded;
  return s;
}

test("failures count in a row, and a success ends all that came of them", async () => {
  const s = scripted();
  const fail = async (times: number): Promise<void> => {
    s.answer = undefined;
    for (let i = 0; i < times; i++) assert.equal(await s.check(), "store_unavailable");
    s.answer = 200;
  };
  for (let i = 0; i < 3; i++) {
    await fail(2);
    assert.equal(await s.check(), "");
  }
  await fail(3);
  s.time = 1000;
  await fail(1); // the pause is two seconds now
  s.time = 3000;
  assert.equal(await s.check(), "");
  assert.deepEqual(await Promise.all([s.check(), s.check()]), ["", ""], "calls wait for none under way");
  await fail(3); // three more are needed, and the pause is the first again
  s.time = 3999;
  assert.equal(await s.check(), "store_breaker");
  s.time = 4000;
  assert.deepEqual(await Promise.all([s.check(), s.check()]), ["", "store_breaker"], "one probe at a time");
});

test("pauses are bounded", async () => {
  const s = scripted();
  s.answer = undefined;
  for (let i = 0; i < 3; i++) await s.check();
  for (const pause of [1000, 2000, 4000, 4000]) {
    s.time += pause - 1;
    assert.equal(await s.check(), "store_breaker", `pause of ${pause}`);
    s.time++;
    assert.equal(await s.check(), "store_unavailable", `pause of ${pause}`);
  }
});

test("what was not heard is sent again, and what was answered is not", async () => {
  for (const [answer, retries, asked] of [[undefined, 1, 2], [undefined, 0, 1], [401, 1, 1], [307, 1, 1]] as [number | undefined, 0 | 1, number][]) {
    const s = scripted({ retries });
    s.answer = answer;
    assert.notEqual(await s.check(), "");
    assert.equal(s.asked, asked, `status ${answer}, ${retries} retries`);
  }
});

test("a call that its caller gives up ends by the caller's reason", async () => {
  await withServer(() => {}, async (address) => {
    const headgate = new Headgate({ url: address, timeoutMs });
    for (let i = 0; i < 4; i++) { // given up is not failed: the server is asked each time
      const stop = new AbortController();
      const pending = headgate.check({ domain: "shop", entries: { user: "1" } }, { signal: stop.signal });
      setImmediate(() => stop.abort(new Error("enough")));
      await assert.rejects(pending, /enough/);
    }
  });
});

test("connections are kept", async () => {
  const ports = new Set<number | undefined>();
  await withServer((req, res) => {
    ports.add(req.socket.remotePort);
    res.end('{"allowed":true,"matched":false,"rule":"","degraded":""}');
  }, async (address) => {
    const headgate = new Headgate({ url: address, timeoutMs });
    for (let i = 0; i < 5; i++) assert.equal((await headgate.check({ domain: "shop", entries: { user: "1" } })).degraded, "");
  });
  assert.ok(ports.size < 5, `${ports.size} connections`);
});

/** What a decision says, in the order of the recorded answers. */
function summary(d: Decision): unknown[] {
  const told = [d.allowed, d.status, d.limit, d.remaining, d.resetMs, d.retryAfterS, d.delayMs, d.role, d.hold?.id, d.soft[0]?.header, d.degraded];
  return told.map((each) => each ?? null);
}

test("recorded answers, one by one and in a batch", async () => {
  const want: Record<string, unknown> = JSON.parse(readFileSync(answers, "utf8"));
  const domains: string[] = [];
  for (const file of readdirSync(transcripts)) {
    const [request = "", answer = "", text = ""] = readFileSync(join(transcripts, file), "utf8").split("\n\n");
    const [status, ...fields] = answer.split("\n");
    const headers = new Headers(fields.map((line) => line.split(": ", 2) as [string, string]));
    const headgate = new Headgate({ url: "http://recorded", fetch: async () => new Response(text, { status: Number(status), headers }) });
    const name = file.replace(".txt", "");
    if (name === "batch") {
      for (const check of JSON.parse(request.split("\n")[1] ?? "").checks) domains.push(check.domain);
      const got = await headgate.checkAll(domains.map((domain) => ({ domain, entries: { user: "42" } })));
      assert.deepEqual(Object.fromEntries(got.map((each, i) => [domains[i], summary(each)])),
        Object.fromEntries(domains.map((domain) => [domain, want[domain]])));
    } else if (want[name] === undefined) {
      await assert.rejects(headgate.check({ domain: name, entries: { user: "42" } }), HeadgateError, name);
    } else {
      assert.deepEqual(summary(await headgate.check({ domain: name, entries: { user: "42" } })), want[name], name);
    }
  }
  assert.ok(domains.length > 10);
});
