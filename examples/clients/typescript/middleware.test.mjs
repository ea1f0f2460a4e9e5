// @ts-check
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { limit } from "./middleware.mjs";

/**
 * Runs a shop behind the middleware and calls use with its address.
 * @param {Omit<Parameters<typeof limit>[0], "domain" | "entries">} options
 * @param {(url: string) => Promise<void>} use
 */
async function withShop(options, use) {
  const entries = (/** @type {import("node:http").IncomingMessage} */ req) => [{ key: "user", value: String(req.headers["x-user"]) }];
  const check = limit({ domain: "shop", entries, ...options });
  await withServer((req, res) => check(req, res, () => res.end("served")), use);
}

/** @param {import("node:http").RequestListener} listener @param {(url: string) => Promise<void>} use */
async function withServer(listener, use) {
  const server = createServer(listener);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(null)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  try {
    await use(`http://127.0.0.1:${port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** @param {string} url @param {string} user */
async function get(url, user) {
  const response = await fetch(url, { headers: { "X-User": user } });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

test("against Headgate: five pass, the sixth is told when to come back", { skip: !process.env.HEADGATE_URL }, async () => {
  await withShop({ url: String(process.env.HEADGATE_URL), timeout: 10_000 }, async (url) => {
    for (let left = 4; left >= 0; left--) {
      const got = await get(url, `ts "quoted" ${process.pid}`);
      assert.equal(got.status, 200);
      assert.equal(got.text, "served");
      assert.match(String(got.headers.get("ratelimit")), new RegExp(`^"per_user";r=${left};t=\\d+$`));
    }
    const denied = await get(url, `ts "quoted" ${process.pid}`);
    assert.equal(denied.status, 429);
    assert.ok(Number(denied.headers.get("retry-after")) >= 1);
    assert.equal(denied.headers.get("cache-control"), "no-store");
    assert.equal(JSON.parse(denied.text).error.code, "RATE_LIMITED");
    assert.equal((await get(url, `another ${process.pid}`)).status, 200);
  });
});

test("an answer that is lost is counted once", { skip: !process.env.HEADGATE_FORGETFUL_URL }, async () => {
  await withShop({ url: String(process.env.HEADGATE_FORGETFUL_URL), timeout: 10_000 }, async (url) => {
    for (const left of [4, 3]) {
      const got = await get(url, `lost ${process.pid}`);
      assert.equal(got.status, 200);
      assert.match(String(got.headers.get("ratelimit")), new RegExp(`^"per_user";r=${left};`));
    }
  });
});

for (const [name, listener] of /** @type {[string, import("node:http").RequestListener][]} */ ([
  ["a server that does not answer", () => {}],
  ["a server that does not finish", (_, res) => { res.write('{"allowed":'); }],
  ["a page of a proxy", (_, res) => { res.statusCode = 503; res.end("<html>"); }],
  ["a refusal of the check", (_, res) => { res.statusCode = 400; res.end('{"title":"Bad Request"}'); }],
  ["a hang up", (req) => { req.socket.destroy(); }],
])) {
  test(`fail open and closed: ${name}`, async () => {
    await withServer(listener, async (headgate) => {
      const seen = /** @type {Error[]} */ ([]);
      await withShop({ url: headgate, timeout: 50, observe: (e) => seen.push(e) }, async (url) => {
        assert.equal((await get(url, "1")).text, "served");
      });
      assert.equal(seen.length, 1);
      await withShop({ url: headgate, timeout: 50, failClosed: true }, async (url) => {
        const got = await get(url, "1");
        assert.equal(got.status, 503);
        assert.equal(got.headers.get("retry-after"), "1");
      });
    });
  });
}
