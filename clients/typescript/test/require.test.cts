import assert = require("node:assert/strict");
import test = require("node:test");

import client = require("@headgate/client");
import byExpress = require("@headgate/client/express");
import byFastify = require("@headgate/client/fastify");

test("CommonJS has the same, and answers the same", async () => {
  assert.equal(typeof byExpress.limit, "function");
  assert.equal(typeof byFastify.limit, "function");
  assert.equal(typeof client.limitedFetch, "function");
  const url = process.env["HEADGATE_URL"];
  assert.ok(url !== undefined);
  const headgate: client.Headgate = new client.Headgate({ url, timeoutMs: 30_000 });
  const decision: client.Decision = await headgate.check({ domain: "shop", entries: { user: `cjs ${process.pid} ${Date.now()}` } });
  assert.deepEqual([decision.allowed, decision.remaining], [true, 4]);
});
