import assert from "node:assert/strict";
import { accessible, check, login, open, pages, play, shot, stage } from "./stage.mjs";

const more = [["explained", "explain?domain=shop&d=tenant:acme,endpoint:POST%20/v1/orders&d=remote_address:192.0.2.1"], ["tenant", "tenants/tenant:acme"], ["rule", "rules/shop.tenant"], ["editor", "edit/document/new.yaml"]];

for (let i = 0; i < 6; i++) for (const tenant of ["acme", "globex", "initech"]) await check({ tenant });
for (let i = 0; i < 3; i++) await check({ tenant: "umbrella", endpoint: "GET /v1/search" });

// Something goes on while one looks.
const traffic = setInterval(() => {
  check({ tenant: ["acme", "globex", "initech", "umbrella"][Math.floor(Math.random() * 4)], endpoint: "GET /v1/search" }).catch(() => {});
  check({ tenant: "acme", endpoint: "POST /v1/orders" }).catch(() => {});
}, 150);

for (const [name, options] of [
  ["light", { colorScheme: "light" }],
  ["dark", { colorScheme: "dark" }],
  ["small", { colorScheme: "light", viewport: { width: 360, height: 740 } }],
]) {
  await play(async (page) => {
    await page.goto(stage.base);
    await page.getByLabel("Token").waitFor();
    await accessible(page, "login");
    await shot(page, `${name}-login`);
    await login(page);
    if (name === "light") {
      const put = await page.request.put(`${stage.base}/api/quotas/tenant:acme`, { headers: { "Content-Type": "application/json" }, data: { tier: "pro", overrides: [{ descriptor: "endpoint:POST /v1/orders", requests_per_unit: 40, unit: "minute" }] } });
      assert.equal(put.status(), 201);
    }
    for (const [what, hash] of [...pages.map((p) => [p, p]), ...more]) {
      await open(page, hash);
      await page.locator(".page .spinner").first().waitFor({ state: "detached" });
      if (what === "overview") await page.locator(".chart path.line.tone-allowed[d*=L]").first().waitFor({ state: "attached" });
      if (what === "explained") await page.getByText("As text").waitFor();
      const rules = await accessible(page, `${what}, ${name}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${what}, ${name}: ${wide} px too wide`);
      await shot(page, `${name}-${what}`);
      console.log(`${what}, ${name}: ${rules} rules of axe-core, no fault`);
    }
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await accessible(page, `dialog, ${name}`);
  }, { reducedMotion: "reduce", ...options });
}

clearInterval(traffic);
