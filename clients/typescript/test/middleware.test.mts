import assert from "node:assert/strict";
import { createServer, request as send, type IncomingMessage, type RequestListener } from "node:http";
import { test } from "node:test";

import express, { type Request } from "express";
import fastify from "fastify";

import { Headgate, type Check, type HeadgateError, type HeadgateOptions } from "@headgate/client";
import { decisionOf, limit } from "@headgate/client/express";
import { decisionOf as decisionOfFastify, limit as limitFastify } from "@headgate/client/fastify";
import { timeoutMs, url, user, withServer } from "./stage.mjs";

type Ask = { headers: IncomingMessage["headers"] };
interface Shop {
  readonly headgate: Headgate;
  readonly check: (request: Ask) => Check | undefined;
  readonly onRefused?: (error: HeadgateError) => void;
}

/** What a request is limited on: nothing without a user. A check that fails throws. */
function byUser(request: Ask): Check | undefined {
  const who = request.headers["x-user"];
  if (who === "broken") throw new Error("no such session");
  return typeof who === "string" ? { domain: "shop", entries: { user: who } } : undefined;
}

const shops: Record<string, (shop: Shop, use: (url: string) => Promise<void>) => Promise<void>> = {
  async express(shop, use) {
    const app = express();
    app.use(limit<Request>({ ...shop, check: (request) => shop.check(request) }));
    app.get("/", (request, response) => { response.send(`served ${decisionOf(request)?.remaining}`); });
    app.use((error: Error, _: unknown, response: express.Response, _next: unknown) => { response.status(500).send(error.message); });
    await withServer(app, use);
  },
  async "node:http"(shop, use) {
    const check = limit(shop);
    const listener: RequestListener = (request, response) => check(request, response, (error) => {
      response.statusCode = error === undefined ? 200 : 500;
      response.end(error instanceof Error ? error.message : `served ${decisionOf(request)?.remaining}`);
    });
    await withServer(listener, use);
  },
  async fastify(shop, use) {
    const app = fastify({ forceCloseConnections: true });
    app.addHook("onRequest", limitFastify(shop));
    app.get("/", async (request) => `served ${decisionOfFastify(request)?.remaining}`);
    try {
      await use(await app.listen({ port: 0, host: "127.0.0.1" }));
    } finally {
      await app.close();
    }
  },
};

async function get(address: string, who?: string) {
  const response = await fetch(address, who === undefined ? {} : { headers: { "X-User": who } });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

const with_ = (options: Partial<HeadgateOptions> = {}): Headgate => new Headgate({ url, timeoutMs, ...options });

for (const [name, run] of Object.entries(shops)) {
  test(`${name}: five pass, the sixth is told when to come back`, async () => {
    await run({ headgate: with_(), check: byUser }, async (shop) => {
      const who = `m${process.pid}-${name}`;
      for (let left = 4; left >= 0; left--) {
        const got = await get(shop, who);
        assert.deepEqual([got.status, got.text], [200, `served ${left}`]);
        assert.match(String(got.headers.get("ratelimit")), new RegExp(`^"per_user";r=${left};t=\\d+$`));
        assert.equal(got.headers.get("x-ratelimit-remaining"), String(left));
      }
      const denied = await get(shop, who);
      assert.equal(denied.status, 429);
      assert.ok(Number(denied.headers.get("retry-after")) >= 1);
      assert.equal(denied.headers.get("cache-control"), "no-store");
      assert.match(String(denied.headers.get("content-type")), /^application\/problem\+json/);
      const problem = JSON.parse(denied.text);
      assert.deepEqual([problem.status, typeof problem.title], [429, "string"]);
      assert.equal((await get(shop, user())).status, 200);
      assert.equal((await get(shop)).text, "served undefined", "what has no user is not asked about");
    });
  });

  test(`${name}: a fault of the key is an error of the request`, async () => {
    await run({ headgate: with_(), check: byUser }, async (shop) => {
      const got = await get(shop, "broken");
      assert.equal(got.status, 500);
      assert.match(got.text, /no such session/);
    });
  });

  test(`${name}: a check that the server refuses goes as the failure mode says`, async () => {
    const seen: HeadgateError[] = [];
    const shop = { check: () => ({ domain: "", entries: { user: "1" } }), onRefused: (error: HeadgateError) => { seen.push(error); } };
    await run({ ...shop, headgate: with_() }, async (address) => assert.equal((await get(address)).status, 200));
    await run({ ...shop, headgate: with_({ failure: "closed" }) }, async (address) => assert.equal((await get(address)).status, 503));
    assert.deepEqual(seen.map((error) => error.status), [400, 400]);
  });

  test(`${name}: fail open and closed`, async () => {
    await withServer((req) => { req.socket.destroy(); }, async (down) => {
      await run({ headgate: with_({ url: down }), check: byUser }, async (shop) =>
        assert.equal((await get(shop, "1")).text, "served undefined"));
      await run({ headgate: with_({ url: down, failure: "closed" }), check: byUser }, async (shop) => {
        const got = await get(shop, "1");
        assert.deepEqual([got.status, got.headers.get("retry-after"), JSON.parse(got.text).status], [503, "1", 503]);
        assert.match(String(got.headers.get("content-type")), /^application\/problem\+json/);
      });
    });
  });

  test(`${name}: a request is held back until its turn`, async () => {
    let asked = 0;
    await withServer((_, res) => { asked++; res.end('{"allowed":true,"matched":true,"rule":"r","delay_ms":5,"degraded":""}'); }, async (shaping) => {
      await run({ headgate: with_({ url: shaping }), check: byUser }, async (shop) =>
        assert.deepEqual([(await get(shop, "1")).status, asked], [200, 1]));
    });
  });
}

test("a client that goes away while it is held back is not served", async () => {
  await withServer((_, res) => { res.end('{"allowed":true,"matched":true,"rule":"r","delay_ms":3600000,"degraded":""}'); }, async (shaping) => {
    const check = limit({ headgate: with_({ url: shaping }), check: byUser });
    let served = false, asking: ReturnType<typeof send>;
    const gone = new Promise<void>((resolve, reject) => {
      const server = createServer((request, response) => {
        check(request, response, () => { served = true; });
        const leave = (): void => { setImmediate(decisionOf(request) === undefined ? leave : () => asking.destroy()); };
        leave();
        response.once("close", () => setImmediate(() => { server.close(); resolve(); }));
      }).listen(0, "127.0.0.1", () => {
        const address = server.address();
        if (address === null || typeof address === "string") return reject(new Error("no address"));
        asking = send({ port: address.port, headers: { "x-user": "1" } }).on("error", () => {});
        asking.end();
      });
    });
    await gone;
    assert.equal(served, false);
  });
});
