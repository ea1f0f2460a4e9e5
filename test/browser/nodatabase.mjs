import assert from "node:assert/strict";
import { accessible, check, heading, login, open, play, shot, until } from "./stage.mjs";

for (let i = 0; i < 5; i++) await check({ tenant: "acme" });

await play(async (page) => {
  await login(page);
  await open(page, "tenants");
  await page.getByText("No database: accounts cannot be changed here.").waitFor();
  await page.getByText("--tenants sqlite:///var/lib/headgate/tenants.db").waitFor();
  await page.locator(".page .spinner").first().waitFor({ state: "detached" });
  await accessible(page, "tenants without a database");
  await shot(page, "nodatabase-tenants");
  // What was used is known all the same.
  await page.getByLabel("Name or prefix").fill("acme");
  await page.keyboard.press("Enter");
  await heading(page, "tenant:acme");
  await page.getByRole("table", { name: "Usage" }).getByText("3 of 3").waitFor();
  await shot(page, "nodatabase-tenant");
  await open(page, "rules");
  const button = page.getByRole("button", { name: "Switch the rule shop.tenant", exact: true });
  await button.waitFor();
  assert.ok(await button.isEnabled(), "switches need no database");
  await page.getByText("no switch").first().waitFor();

  // A limit is recommended by the requests of the last hour, and opened as a draft of the file.
  for (let i = 0; i < 5; i++) await check({ remote_address: "192.0.2.7" });
  await open(page, "rules/shop.remote_address");
  const advice = page.getByRole("region", { name: "Recommended limit" });
  const shown = advice.locator(".recommended").filter({ hasText: /^6$/ }); // five were asked for, and a fifth more
  await until("the limit to be recommended", async () => {
    await advice.getByRole("button", { name: "Recommend a limit", exact: true }).click();
    await advice.locator(".spinner").waitFor({ state: "detached" });
    return (await shown.count()) === 1;
  });
  await advice.locator(".of").filter({ hasText: /^1\d$/ }).waitFor(); // events of this rule and of acme
  await accessible(page, "a recommended limit");
  await shot(page, "nodatabase-recommended");
  await advice.getByRole("button", { name: "Open as a draft", exact: true }).click();
  const draft = page.getByRole("region", { name: "Review", exact: true });
  await draft.locator(".diff .after").filter({ hasText: "rate_limit: {unit: hour, requests_per_unit: 6}" }).waitFor();
  await draft.getByRole("button", { name: "Copy the difference" }).waitFor();
  assert.match(await page.getByLabel(/^Rules of /).inputValue(), /\n {4}candidate:\n/);
  assert.equal(await page.getByRole("button", { name: /^Save it/ }).count(), 0);

  // Rule files are reviewed, and not saved.
  await open(page, "edit");
  await page.getByText("this process has no database of tenants").waitFor();
  await page.locator("main li a").first().click();
  const text = page.getByLabel(/^Rules of /);
  await text.waitFor();
  await page.getByText("is not saved").waitFor();
  await text.fill((await text.inputValue()).replace("requests_per_unit: 50}", "requests_per_unit: 5}"));
  await page.getByRole("button", { name: "Review", exact: true }).click();
  const review = page.getByRole("region", { name: "Review" });
  await review.getByRole("table", { name: "What changes for requests" }).getByText("changed").first().waitFor();
  await review.locator(".diff .after").filter({ hasText: "requests_per_unit: 5}" }).waitFor();
  await review.getByRole("button", { name: "Copy the difference" }).waitFor();
  assert.equal(await page.getByRole("button", { name: /^Save it/ }).count(), 0);
  await accessible(page, "a rule file under review");
  await shot(page, "nodatabase-editor");
});
