import assert from "node:assert/strict";
import { accessible, check, control, login, open, play, shot } from "./stage.mjs";

for (let i = 0; i < 3; i++) await check({ tenant: "acme" });

await play(async (page) => {
  await login(page);
  await open(page, "explain?domain=shop&d=tenant:acme");
  await page.getByText("It would be denied.").waitFor();
  await control("store/kill");
  await page.getByText("Degraded", { exact: true }).or(page.getByText("Not ready", { exact: true })).first().waitFor();
  await page.getByRole("button", { name: "Explain", exact: true }).click();
  // This node alone has let the whole limit pass, of the other key nothing.
  await page.getByText("Unknown: the store does not answer; failure mode open would deny it.").waitFor();
  await open(page, "explain?domain=shop&d=tenant:globex");
  await page.getByText("Unknown: the store does not answer; failure mode open would allow it.").waitFor();
  await page.locator(".verdict.tone-warn").waitFor();
  await page.getByText("unknown: the store does not answer").first().waitFor();
  assert.equal(await page.getByText("0 of 0 used").count(), 0, "a count that nobody knows");
  assert.equal(await page.getByText("It would be allowed.").count(), 0);
  await accessible(page, "explained without a store");
  await shot(page, "storeaway-explain");
  await open(page, "overview");
  const server = page.getByRole("table", { name: "Servers of the store" }).getByRole("row").nth(1);
  await server.getByText("no connection").waitFor();
  assert.equal(await server.locator(".tone-allowed").count(), 0, "green beside no connection");
  await shot(page, "storeaway-overview");
});
