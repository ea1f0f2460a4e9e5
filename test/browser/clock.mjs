import assert from "node:assert/strict";
import { check, login, open, play, stage, until } from "./stage.mjs";

const hour = 3600e3;
const traffic = setInterval(() => check({ tenant: "acme" }).catch(() => {}), 100);

// What stands on pages is by the clock of the node, whatever that of the browser is.
for (const off of [hour, -hour]) {
  await play(async (page, context) => {
    await context.addInitScript((ms) => {
      const now = Date.now;
      Date.now = () => now() + ms;
    }, off);
    await login(page);
    await page.locator('.main-chart .line.tone-allowed[d*="L"]').waitFor({ state: "attached" });
    assert.match(await page.getByRole("table", { name: "Configuration in force" }).getByRole("row", { name: /^Rules/ }).textContent(), /[1-9]\d* (?:s|min) ago$/);
    await open(page, "history");
    await page.getByRole("img", { name: /^Requests per second, from .* to .*allowed: [^;]*at most (?:0\.\d|[1-9<])/ }).waitFor();
    await open(page, "rules/shop.tenant");
    await page.getByRole("button", { name: "Switch the rule shop.tenant" }).click();
    await page.getByLabel("How long").first().selectOption("7200");
    await page.getByRole("button", { name: "Review" }).click();
    await page.getByRole("button", { name: "Switch it" }).click();
    let ends = 0;
    await until("the switch", async () => (ends = Date.parse((await (await page.request.get(`${stage.base}/api/switches/rule:shop.tenant`)).json()).switch?.until)) > 0);
    assert.ok(Math.abs(ends - Date.now() - 2 * hour) < hour / 2, "two hours are those of the browser");
    assert.ok((await page.request.delete(`${stage.base}/api/switches/rule:shop.tenant`)).ok());
  });
}
clearInterval(traffic);
