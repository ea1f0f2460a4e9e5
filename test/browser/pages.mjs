// Every page while requests come in and many are denied.
import assert from "node:assert/strict";
import { check, login, play, stage } from "./stage.mjs";
import { explained, tour } from "./tour.mjs";

for (let i = 0; i < 6; i++) for (const tenant of ["acme", "globex", "initech"]) await check({ tenant });
for (let i = 0; i < 3; i++) await check({ tenant: "umbrella", endpoint: "GET /v1/search" });

// Something goes on while one looks.
const traffic = setInterval(() => {
  check({ tenant: ["acme", "globex", "initech", "umbrella"][Math.floor(Math.random() * 4)], endpoint: "GET /v1/search" }).catch(() => {});
  check({ tenant: "acme", endpoint: "POST /v1/orders" }).catch(() => {});
}, 150);

await play(async (page) => {
  await login(page);
  const put = await page.request.put(`${stage.base}/api/quotas/tenant:acme`, { headers: { "Content-Type": "application/json" }, data: { tier: "pro", overrides: [{ descriptor: "endpoint:POST /v1/orders", requests_per_unit: 40, unit: "minute" }] } });
  assert.equal(put.status(), 201);
});

const settled = { explained, overview: (page) => page.locator(".chart path.line.tone-allowed[d*=L]").first().waitFor({ state: "attached" }) };
const looks = stage.firefox ? [["light", "wide"]] : [["light", "wide"], ["dark", "middle"], ["light", "small"]];
for (const [theme, width] of looks) await tour("busy", theme, width, settled);

clearInterval(traffic);
