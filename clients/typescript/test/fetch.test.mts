import assert from "node:assert/strict";
import { test } from "node:test";
import { WaitError, levels, limitedFetch, retryAfter, type LimitedFetchOptions } from "@headgate/client";

const headers = (h: object): Headers => new Headers(h as Record<string, string>);

test("levels of every generation", () => {
  const now = Math.floor(Date.now() / 1000), date = new Date(now * 1000).toUTCString();
  const want = [{ remaining: 17, limit: 20, reset: 42 }];
  for (const h of [
    { "RateLimit-Policy": '"default";q=100;w=60, "writes";q=20;w=60', RateLimit: '"writes";r=17;t=42' },
    { RateLimit: "limit=20, remaining=17, reset=42" },
    { "RateLimit-Limit": "20;window=60", "RateLimit-Remaining": "17", "RateLimit-Reset": "42" },
    { "X-RateLimit-Limit": "20, 20;w=60", "X-RateLimit-Remaining": "17", "X-RateLimit-Reset": "42" },
    { "X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "17", "X-RateLimit-Reset": String(now + 42), Date: date },
  ]) assert.deepEqual(levels(headers(h)), want, JSON.stringify(h));
  for (const h of [
    {}, { RateLimit: '"a";r=1, "b' }, { RateLimit: '"a";t=1' }, { RateLimit: '"a";r=-1' }, { RateLimit: '"a";r=1;t=1', Age: "5" },
    { "X-RateLimit-Remaining": "many" }, { RateLimit: '"a";r=1', "RateLimit-Policy": '"a";q=9;qu="content-bytes"' },
  ]) assert.deepEqual(levels(headers(h)), [], JSON.stringify(h));
});

test("no reset is farther away than a window is long", () => {
  for (const h of [{ RateLimit: '"a";r=0;t=999999999999' }, { RateLimit: "limit=1, remaining=0, reset=999999999999" }]) {
    assert.deepEqual(levels(headers(h)).map((level) => level.reset), [366 * 24 * 3600], JSON.stringify(h));
  }
});

test("Retry-After in both forms", () => {
  assert.equal(retryAfter(headers({ "Retry-After": "42" })), 42);
  assert.equal(retryAfter(headers({ "Retry-After": "Tue, 23 Jan 2024 09:54:20 GMT", Date: "Tue, 23 Jan 2024 09:53:38 GMT" })), 42);
  assert.equal(retryAfter(headers({ "Retry-After": "Tue, 23 Jan 2024 09:54:20 GMT" })), 0);
  assert.equal(retryAfter(headers({ "Retry-After": "999999999999" })), 366 * 24 * 3600);
  for (const junk of ["-1", "soon", "1e9", ""]) assert.equal(retryAfter(headers({ "Retry-After": junk })), null);
});

/** A fetch and a clock: time passes only in sleep. */
function scripted(answer: (n: number) => [number, Record<string, string>], options: LimitedFetchOptions = {}) {
  const s = { time: 0, at: [] as number[], bodies: [] as string[], fetch };
  s.fetch = limitedFetch({
    random: () => 0, now: () => s.time, sleep: async (seconds) => { s.time += seconds; },
    fetch: async (input) => {
      s.at.push(s.time);
      s.bodies.push(await (input as Request).text());
      const [status, h] = answer(s.at.length - 1);
      return new Response("body", { status, headers: h });
    },
    ...options,
  });
  return s;
}

test("it comes back late rather than early", async () => {
  for (const [told, want] of [["3", 3.3], ["20", 21]] as const) {
    const s = scripted((n) => (n === 0 ? [429, { "Retry-After": told }] : [200, {}]), { random: () => 1 });
    assert.equal((await s.fetch("http://api.test/")).status, 200);
    assert.deepEqual(s.at, [0, want]);
  }
});

test("of two that are refused at one time, a shorter wait takes back no longer one", async () => {
  const told = ["20", "5"];
  const s = scripted(() => [429, { "Retry-After": told.shift() ?? "5" }], { maxWait: 10 });
  const [first, second] = await Promise.allSettled([s.fetch("http://api.test/"), s.fetch("http://api.test/")]);
  assert.equal(first.status === "fulfilled" && first.value.status, 429);
  assert.ok(second.status === "rejected" && second.reason instanceof WaitError);
  assert.equal(s.at.length, 2);
});

test("a refused request is sent again when the server says, with its body", async () => {
  const s = scripted((n) => (n === 0 ? [429, { "Retry-After": "3" }] : [200, {}]));
  const response = await s.fetch("http://api.test/", { method: "PUT", body: "data" });
  assert.equal(response.status, 200);
  assert.deepEqual(s.at, [0, 3]);
  assert.deepEqual(s.bodies, ["data", "data"]);
});

test("backoff without a word of the server, and the last answer", async () => {
  const s = scripted(() => [503, {}]);
  assert.equal((await s.fetch("http://api.test/")).status, 503);
  assert.deepEqual(s.at.map((t) => Math.round(t * 1000)), [0, 50, 150, 350]);
});

test("what is not idempotent is sent once", async () => {
  const s = scripted(() => [503, {}]);
  await s.fetch("http://api.test/", { method: "POST", body: "x" });
  assert.equal(s.at.length, 1);
  await s.fetch("http://api.test/", { method: "POST", body: "x", headers: { "Idempotency-Key": "1" } });
  assert.equal(s.at.length, 5);
});

test("the retry budget: a tenth more, after the first few", async () => {
  const s = scripted(() => [503, {}]);
  for (let i = 0; i < 1000; i++) await s.fetch("http://api.test/");
  const extra = s.at.length - 1000;
  assert.ok(extra > 50 && extra <= 111, `${extra} retries`);
});

test("what is too far away is not waited for, nor asked", async () => {
  const s = scripted((n) => (n === 0 ? [429, { "Retry-After": "31" }] : [200, {}]));
  assert.equal((await s.fetch("http://api.test/")).status, 429);
  await assert.rejects(s.fetch("http://api.test/"), WaitError);
  assert.equal((await s.fetch("http://other.test/")).status, 200);
  s.time += 2;
  assert.equal((await s.fetch("http://api.test/")).status, 200);
  assert.equal(s.time, 31);
});

test("Retry-After holds back only where a request was refused", async () => {
  const s = scripted(() => [202, { "Retry-After": "31" }]);
  for (let i = 0; i < 2; i++) assert.equal((await s.fetch("http://api.test/")).status, 202);
  assert.deepEqual(s.at, [0, 0]);
});

test("requests are spread before the limit, and none is refused", async () => {
  let used = 0, end = 0, refused = 0;
  const s = scripted(() => {
    if (s.time >= end) [used, end] = [0, s.time + 60];
    const status = used === 100 ? 429 : 200;
    if (status === 200) used++; else refused++;
    return [status, { "RateLimit-Policy": '"a";q=100;w=60', RateLimit: `"a";r=${100 - used};t=${Math.ceil(end - s.time)}` }];
  });
  for (let i = 0; i < 250; i++) assert.equal((await s.fetch("http://api.test/")).status, 200);
  assert.equal(refused, 0);
  assert.ok(s.time > 100 && s.time < 180, `took ${s.time} s`);
});

test("the origins that were used last are known", async () => {
  const s = scripted((n) => (n === 0 ? [429, { "Retry-After": "31" }] : [200, {}]));
  assert.equal((await s.fetch("http://api.test/")).status, 429);
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 999; i++) await s.fetch(`http://${round}-${i}.test/`);
    await assert.rejects(s.fetch("http://api.test/"), WaitError);
  }
  for (let i = 0; i < 1000; i++) await s.fetch(`http://2-${i}.test/`);
  assert.equal((await s.fetch("http://api.test/")).status, 200);
});

test("a refusal whose body breaks off is sent again", async () => {
  let asked = 0;
  const send = limitedFetch({ sleep: async () => {}, fetch: async () => {
    if (asked++ > 0) return new Response("body");
    return new Response(new ReadableStream({ start(body) { body.error(new Error("cut off")); } }), { status: 503 });
  } });
  assert.equal((await send("http://api.test/")).status, 200);
});

test("a wait is never cut short by what a timer can hold", async (t) => {
  const day = 24 * 3600, waits: number[] = [];
  let asked = 0;
  const send = limitedFetch({ maxWait: Infinity, random: () => 0, fetch: async () =>
    new Response("", asked++ === 0 ? { status: 429, headers: { "Retry-After": String(60 * day) } } : {}) });
  const timer = setTimeout;
  t.mock.method(globalThis, "setTimeout", (then: () => void, ms: number) => {
    if (ms < day * 1000) return timer(then, ms); // of connections that other tests have left
    waits.push(ms);
    return setImmediate(then);
  });
  assert.equal((await send("http://api.test/")).status, 200);
  assert.ok(waits.every((ms) => ms < 2 ** 31), String(waits));
  assert.ok(waits.reduce((sum, ms) => sum + ms, 0) >= 60 * day * 1000, String(waits));
});

test("a wait ends with its signal", async () => {
  const send = limitedFetch({ fetch: async () => new Response("", { status: 429, headers: { "Retry-After": "20" } }) });
  const stop = new AbortController();
  const pending = send("http://api.test/", { signal: stop.signal });
  setImmediate(() => stop.abort(new Error("enough")));
  await assert.rejects(pending, /enough/);
});

test("against Headgate: the refused request passes when its time has come", async () => {
  const waits = [] as number[];
  const send = limitedFetch({ paceBelow: 0, observe: (e) => waits.push(e.seconds) });
  const body = JSON.stringify({ domain: "shop", descriptors: [{ entries: [{ key: "steady", value: `ts-${process.pid}` }] }] });
  let asked = 0;
  while (waits.length === 0) { // where this machine is slow, several pass without one
    asked++;
    const headers = { "Content-Type": "application/json", "Idempotency-Key": String(asked) };
    const response = await send(`${process.env["HEADGATE_URL"]}/v1/check`, { method: "POST", body, headers });
    assert.equal(response.status, 200);
    assert.equal(((await response.json()) as { allowed: boolean }).allowed, true);
  }
  assert.ok(asked > 1, `waited ${waits} for the first`);
});
