import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import type { RequestListener } from "node:http";
import { join } from "node:path";
import { test } from "node:test";

import { Headgate, HeadgateError, type Check, type Decision, type HeadgateOptions, type Reason } from "@headgate/client";
import { answers, forgetfulUrl, timeoutMs, tlsUrl, token, transcripts, url, user, withServer } from "./stage.mjs";

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

test("an address may end with a query or a fragment that is empty", async () => {
  const asked: string[] = [];
  for (const end of ["", "/", "?", "/#", "/base/?#"]) {
    await new Headgate({ url: `http://h${end}`, fetch: async (to) => { asked.push(String(to)); return new Response(""); } }).cancel("r");
  }
  assert.deepEqual(asked, [...Array(4).fill("http://h/v1/cancel"), "http://h/base/v1/cancel"]);
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
  let tokens = 0;
  const tokenless = new Headgate({ url, retries: 1, token: () => { tokens++; throw new Error("none"); } });
  assert.equal((await tokenless.check({ domain: "shop", entries: { user: "1" } })).degraded, "store_misconfigured");
  assert.equal(tokens, 1);
  for (const operation of ["renew", "release"] as const) {
    const bodies: unknown[] = [];
    const headgate = new Headgate({ url, retries: 1, fetch: async (_, init) => { bodies.push(init?.body); throw new Error("away"); } });
    await headgate[operation]({ domain: "shop", entries: { user: "1" }, hold: "h" });
    assert.equal(bodies.length, 1, operation);
    assert.doesNotMatch(String(bodies[0]), /"id"/);
  }
});

test("tries share the time", async (t) => {
  let time = 0;
  const shares: number[] = [];
  const headgate = new Headgate({ url, timeoutMs: 100, retries: 1, now: () => time, fetch: async (_, init) =>
    new Promise((_resolve, reject) => init?.signal?.addEventListener("abort", () => reject(new Error("stopped")))) });
  const timer = setTimeout;
  t.mock.method(globalThis, "setTimeout", (then: () => void, ms: number) => {
    if (ms > 100) return timer(then, ms); // of connections that other tests have left
    shares.push(ms);
    return setImmediate(() => { time += ms; then(); });
  });
  assert.equal((await headgate.check({ domain: "shop", entries: { user: "1" } })).degraded, "store_timeout");
  assert.deepEqual(shares, [50, 50]);
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

test("a probe that its caller gives up says nothing: the server is asked again", async () => {
  let time = 0, silent = false, asked = 0;
  const headgate = new Headgate({ url, timeoutMs, now: () => time, fetch: async (_, init) => {
    asked++;
    if (!silent) throw new Error("away");
    return new Promise((_resolve, reject) => init?.signal?.addEventListener("abort", () => reject(new Error("stopped"))));
  } });
  const check: Check = { domain: "shop", entries: { user: "1" } };
  for (let i = 0; i < 3; i++) await headgate.check(check);
  time = 1000;
  silent = true;
  const stop = new AbortController(), probe = headgate.check(check, { signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(probe, /enough/);
  silent = false;
  assert.equal((await headgate.check(check)).degraded, "store_unavailable");
  assert.equal(asked, 5);
});

test("a refusal is an answer, of a server that was away too: it is asked again from then on", async () => {
  let time = 0, status = 502;
  const headgate = new Headgate({ url, now: () => time, fetch: async () => new Response('{"title":"T"}', { status }) });
  const check: Check = { domain: "shop", entries: { user: "1" } };
  for (let i = 0; i < 3; i++) await headgate.check(check);
  [time, status] = [1000, 400];
  await assert.rejects(headgate.check(check), HeadgateError);
  await Promise.all([1, 2].map(() => assert.rejects(headgate.check(check), HeadgateError)));
});

test("a call leaves no timer and no listener behind", async () => {
  const headgate = new Headgate({ url, timeoutMs, fetch: async () => new Response('{"allowed":true}') });
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const { signal } = new AbortController(), before = timers();
  for (let i = 0; i < 5; i++) await headgate.check({ domain: "shop", entries: { user: "1" } }, { signal });
  assert.deepEqual([timers(), getEventListeners(signal, "abort").length], [before, 0]);
});

test("over TLS, by the name of the host", async () => {
  const check: Check = { domain: "shop", entries: { user: user() } };
  assert.equal((await new Headgate({ url: tlsUrl, timeoutMs }).check(check)).remaining, 4);
  const other = new Headgate({ url: tlsUrl.replace("localhost", "127.0.0.1"), timeoutMs });
  assert.equal((await other.check(check)).degraded, "store_unavailable");
});

test("what is sent", async () => {
  const heard: { url: string; init: RequestInit; body: string }[] = [];
  let tokens = 0;
  const recording: typeof fetch = async (to, init = {}) => {
    heard.push({ url: String(to), init, body: String(init.body) });
    return new Response("{}");
  };
  const headgate = new Headgate({ url: "http://h:1/base/", retries: 1, token: () => `t${tokens++}`, fetch: recording });
  const told = { domain: "shop", entries: { user: "\u00e9\u2028" } };
  await headgate.checkAll([{ ...told, attributes: { "claim:userId": "1" }, userAgent: "x" }, { ...told, id: "mine" }, told]);
  await headgate.check(told);
  await new Headgate({ url: "http://h", fetch: recording }).check(told);
  const [batch, one, plain] = heard;
  assert.ok(batch !== undefined && one !== undefined && plain !== undefined && heard.length === 3);
  assert.deepEqual([batch.url, batch.init.method, batch.init.redirect], ["http://h:1/base/v1/check", "POST", "manual"]);
  assert.deepEqual([batch, one, plain].map((each) => new Headers(each.init.headers).get("authorization")), ["Bearer t0", "Bearer t1", null]);
  const checks: { id?: string }[] = JSON.parse(batch.body).checks, ids = checks.map((each) => each.id);
  assert.equal(ids[1], "mine");
  assert.equal(new Set(ids).size, 3);
  const descriptors = [{ entries: [{ key: "user", value: "\u00e9\u2028" }] }];
  assert.deepEqual(checks[0], { id: ids[0], domain: "shop", attributes: { "claim:userId": "1" }, user_agent: "x", descriptors });
  assert.deepEqual(JSON.parse(plain.body), { domain: "shop", descriptors }, "no id without retries");
});

test("what is a refusal, and what is no answer", async () => {
  const ask = (status: number): Promise<Decision> => new Headgate({ url, retries: 1, fetch: async () =>
    new Response('{"title":"T","detail":"D","hint":"H"}', { status }) }).check({ domain: "shop", entries: { user: "1" } });
  for (const status of [400, 403, 409, 410, 413, 415, 501]) {
    await assert.rejects(ask(status), (error: unknown) => error instanceof HeadgateError &&
      error.status === status && error.title === "T" && error.detail === "D" && error.hint === "H", String(status));
  }
  for (const [status, reason] of [[401, "store_misconfigured"], [404, "store_misconfigured"], [408, "store_misconfigured"],
    [500, "store_unavailable"], [502, "store_unavailable"], [504, "store_unavailable"]] as const) {
    assert.equal((await ask(status)).degraded, reason, String(status));
  }
});

test("every member of a decision and of a settlement", async () => {
  const answering = (text: string): Headgate => new Headgate({ url, fetch: async () => new Response(text) });
  const told = `{"allowed":false,"matched":true,"limit":9,"remaining":8,"reset_ms":7,"window_ends_ms":6,"retry_after_s":5,
    "delay_ms":4,"rule":"r","role":"ban","tier":"gold","source":"override","hold":{"id":"h","renew_within_ms":3},
    "soft":[{"action":"warn","rule":"s","name":"n","percent":80,"limit":2,"remaining":1,"delay_ms":10,"header":"X-H","value":"v","challenge":"c"}],
    "degraded":"store_full","reservation":"v","expires_at":"2026-01-01T00:00:00Z","name":"n","window_s":60,"status":503,"later":{}}`;
  assert.deepEqual(await answering(`{"results":[${told}]}`).checkAll([{ domain: "shop", entries: { user: "1" } }]), [{
    allowed: false, matched: true, limit: 9, remaining: 8, resetMs: 7, windowEndsMs: 6, retryAfterS: 5, delayMs: 4,
    rule: "r", role: "ban", tier: "gold", source: "override", hold: { id: "h", renewWithinMs: 3 },
    soft: [{ action: "warn", rule: "s", name: "n", percent: 80, limit: 2, remaining: 1, delayMs: 10, header: "X-H", value: "v", challenge: "c" }],
    degraded: "store_full", reservation: "v", expiresAt: "2026-01-01T00:00:00Z", name: "n", windowS: 60, status: 503, headers: {},
  }]);
  const settled = `{"settled":true,"outcome":"settled","limit":9,"remaining":8,"reset_ms":7,"window_ends_ms":6,"rule":"r","degraded":"d","later":1}`;
  assert.deepEqual(await answering(settled).commit({ reservation: "r" }), {
    settled: true, outcome: "settled", limit: 9, remaining: 8, resetMs: 7, windowEndsMs: 6, rule: "r", degraded: "d",
  });
});

test("an answer may come byte by byte", async () => {
  const text = '{"allowed":false,"rule":"\u00e9\u2028\u{1f600}"}', bytes = new TextEncoder().encode(text);
  const headgate = new Headgate({ url, fetch: async () => new Response(new ReadableStream({
    start(body) { for (const each of bytes) body.enqueue(Uint8Array.of(each)); body.close(); },
  })) });
  const got = await headgate.check({ domain: "shop", entries: { user: "1" } });
  assert.deepEqual([got.rule, got.body?.text], [JSON.parse(text).rule, text]);
});

test("the fields that clients get too", async () => {
  const names = ["ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "x-ratelimit-limit",
    "x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-warning", "retry-after"];
  const passed = Object.fromEntries(names.map((name) => [name, `${name}!`]));
  const headers = { ...passed, "set-cookie": "a=b", date: "now", "x-other": "1" };
  const got = await new Headgate({ url, fetch: async () => new Response('{"allowed":true}', { headers }) }).check({ domain: "shop", entries: { user: "1" } });
  assert.deepEqual(got.headers, passed);
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
