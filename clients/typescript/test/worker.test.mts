// The worker of examples/edge-worker, in front of an origin of these tests.

import assert from "node:assert/strict";
import { test } from "node:test";

import { timeoutMs, url, user, withServer } from "./stage.mjs";

interface Worker { fetch(request: Request, env: Record<string, string>): Promise<Response> }

let imported = 0;
/** A worker that has asked nobody yet. */
async function worker(): Promise<Worker> {
  const file = new URL(`../worker.mjs?${imported++}`, import.meta.url);
  return (await import(file.href) as { default: Worker }).default;
}

const env = { HEADGATE_URL: url, HEADGATE_DOMAIN: "shop", TIMEOUT_MS: String(timeoutMs) };

/** Runs an origin and calls use with what asks it through the worker. */
async function withOrigin(use: (ask: (headers: Record<string, string>, more?: Record<string, string>) => Promise<Response>) => Promise<void>): Promise<void> {
  const edge = await worker();
  await withServer((request, response) => {
    response.setHeader("x-origin", "here");
    response.statusCode = 201;
    response.end(`served ${request.headers["x-api-key"]}`);
  }, (origin) => use((headers, more = {}) => edge.fetch(new Request(origin, { headers }), { ...env, ...more })));
}

test("a worker lets pass what fits, tells what is left, and answers the rest itself", () => withOrigin(async (ask) => {
  const key = user();
  for (let left = 4; left >= 0; left--) {
    const response = await ask({ "x-api-key": key });
    assert.equal(response.status, 201);
    assert.equal(response.headers.get("x-origin"), "here");
    assert.equal(response.headers.get("x-ratelimit-remaining"), String(left));
    assert.equal(await response.text(), `served ${key}`);
  }
  const denied = await ask({ "x-api-key": key });
  assert.equal(denied.status, 429);
  assert.equal(denied.headers.get("x-origin"), null);
  assert.equal(denied.headers.get("cache-control"), "no-store");
  assert.equal(denied.headers.get("content-type"), "application/problem+json");
  assert.ok(Number(denied.headers.get("retry-after")) > 0);
  assert.equal((await denied.json() as { status: number }).status, 429);
}));

test("a worker goes by the address where there is no key, and by nothing else that clients send", () => withOrigin(async (ask) => {
  const address = { "cf-connecting-ip": user().replace(/\W/g, "") };
  for (let left = 4; left >= 0; left--) assert.equal((await ask(address)).headers.get("x-ratelimit-remaining"), String(left));
  assert.equal((await ask(address)).status, 429);
  const unknown = await ask({ "x-forwarded-for": address["cf-connecting-ip"] });
  assert.equal(unknown.status, 201);
  assert.equal(unknown.headers.get("x-ratelimit-remaining"), null);
}));

test("a worker lets pass while Headgate does not answer", () => withOrigin(async (ask) => {
  const response = await ask({ "x-api-key": user() }, { HEADGATE_URL: "http://127.0.0.1:1" });
  assert.equal(response.status, 201);
  assert.equal(response.headers.get("x-ratelimit-remaining"), null);
}));

test("a worker lets pass what it asks wrongly", (t) => withOrigin(async (ask) => {
  const told = t.mock.method(console, "error", () => undefined);
  assert.equal((await ask({ "x-api-key": user() }, { HEADGATE_DOMAIN: "" })).status, 201);
  assert.equal(told.mock.callCount(), 1);
  assert.match(String(told.mock.calls[0]?.arguments[0]), /domain/);
}));
