import assert from "node:assert/strict";
import { heading, login, open, play, stage } from "./stage.mjs";

const json = { "Content-Type": "application/json" };
const account = (i) => `tenant:z${String(i).padStart(2, "0")}`;

await play(async (page) => {
  await login(page);
  for (let i = 0; i < 60; i++) assert.ok((await page.request.put(`${stage.base}/api/quotas/${account(i)}`, { headers: json, data: { tier: "pro" } })).ok(), account(i));
  const link = (i) => page.getByRole("link", { name: account(i), exact: true });

  // Back from an account, to the page of accounts and the filter that were left.
  await open(page, "tenants?prefix=tenant:z");
  await link(0).waitFor();
  await page.getByRole("button", { name: "Next →" }).click();
  await link(59).click();
  await heading(page, account(59));
  await page.goBack();
  await heading(page, "Tenants");
  await link(59).waitFor();
  assert.equal(await link(0).count(), 0);
  await page.getByRole("button", { name: "← Before" }).click();
  await link(0).waitFor();

  // Back from a dialog: it is not left over another page.
  const change = async () => {
    await page.getByRole("button", { name: "Change the quota of default" }).click();
    await page.getByRole("dialog").waitFor();
  };
  await link(0).click();
  await heading(page, account(0));
  await change();
  await page.goBack();
  await heading(page, "Tenants");
  await page.locator("dialog").waitFor({ state: "detached" });

  // Back from a change that is under way: if it fails, that is told all the same.
  let release;
  const gone = new Promise((resolve) => (release = resolve));
  await page.route("**/api/quotas/**", async (route) => {
    if (route.request().method() === "PUT") {
      await gone;
      return route.abort();
    }
    return route.continue();
  });
  await link(0).click();
  await heading(page, account(0));
  await change();
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: "Change it" }).click();
  await page.getByText("Working…").waitFor();
  await page.goBack();
  await heading(page, "Tenants");
  await page.locator("dialog").waitFor({ state: "detached" });
  release();
  await page.getByText(`Quota of ${account(0)}: default: `).waitFor();
});
