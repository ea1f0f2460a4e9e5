import assert from "node:assert/strict";
import { accessible, play, shot, stage } from "./stage.mjs";

await play(async (page) => {
  await page.goto(stage.file);
  await page.getByRole("heading", { name: "What the candidate would change" }).waitFor();
  // Of four requests of acme three passed and one may; of the other tenant two passed.
  await page.getByText("6 requests from").waitFor();
  const rules = page.locator("#rules tbody tr").filter({ hasText: /shop\.tenant$/ });
  assert.deepEqual(await rules.first().locator("td").allInnerTexts(), ["3", "0", "1", "4", "shop.tenant"]);
  const keys = await page.locator("#keys tbody tr").allInnerTexts();
  assert.equal(keys.length, 2);
  assert.ok(keys[0].includes("shop tenant:acme (shop.tenant)"), keys[0]);
  assert.ok(keys[1].includes(`tenant:<img src=x onerror="document.title='run'">`), keys[1]);
  assert.equal(await page.title(), "Headgate: replay");
  assert.equal(await page.locator("img").count(), 0);
  assert.ok((await page.locator("svg rect title").count()) > 0, "bars say what they are");
  await page.getByText("Hours", { exact: true }).click();
  await page.locator("#hours tbody tr").first().waitFor();
  await accessible(page, "report of a replay");
  await shot(page, "replay");
});
