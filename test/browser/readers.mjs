import assert from "node:assert/strict";
import { check, login, open, play, shot } from "./stage.mjs";

for (let i = 0; i < 5; i++) await check({ tenant: "acme" });

await play(async (page) => {
  await login(page, "read");
  await open(page, "keys");
  await page.getByText("keys are shown as hashes").waitFor();
  await page.getByRole("table", { name: "Keys with the most requests" }).locator("code.hash").first().waitFor();
  await open(page, "events");
  await page.getByRole("table", { name: "Events, the latest first" }).locator("code.hash").first().waitFor();
  await shot(page, "reader-events");
  for (const hash of ["overview", "keys", "events"]) {
    await open(page, hash);
    await page.locator(".page .spinner").first().waitFor({ state: "detached" });
    assert.ok(!(await page.locator("main").textContent()).includes("acme"), `${hash} names the tenant`);
  }
  await open(page, "rules");
  const button = page.getByRole("button", { name: "Switch the rule shop.tenant", exact: true });
  await button.waitFor();
  assert.ok(await button.isDisabled());
  assert.match(await button.getAttribute("title"), /It takes the scope admin; yours is read/);
  // Who may not write rules does not see where.
  assert.equal(await page.locator("nav").getByText("Edit rules").count(), 0);
  await open(page, "edit");
  await page.getByText("This page is for the scope admin; yours is read.").waitFor();
  const review = await page.request.post(`${new URL(page.url()).origin}/api/rules/review`, { headers: { "Content-Type": "application/json" }, data: { document: "x", text: "domain: x" } });
  assert.equal(review.status(), 403);
  await open(page, "tenants/tenant:acme");
  assert.ok(await page.getByRole("button", { name: "Change tier" }).isDisabled());
  // Not the page alone refuses.
  const put = await page.request.put(`${new URL(page.url()).origin}/api/quotas/tenant:acme`, { headers: { "Content-Type": "application/json" }, data: { tier: "pro" } });
  assert.equal(put.status(), 403);
});

await play(async (page) => {
  await login(page, "write");
  await open(page, "rules");
  const button = page.getByRole("button", { name: "Switch the rule shop.tenant", exact: true });
  await button.waitFor();
  assert.ok(await button.isDisabled());
  await open(page, "tenants/tenant:acme");
  await page.getByRole("button", { name: "Switch the tenant tenant:acme" }).click();
  await page.getByLabel("State").selectOption("off");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: "Switch it" }).click();
  await page.getByText("off", { exact: true }).waitFor();
});
