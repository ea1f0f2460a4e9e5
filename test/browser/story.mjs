import assert from "node:assert/strict";
import { check, heading, login, open, play, shot, stage, until } from "./stage.mjs";

const acme = { tenant: "acme" };

await play(async (page) => {
  // Who has a wrong token stays outside.
  await page.goto(stage.base);
  await page.getByLabel("Token").fill("hga_wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").getByText("the token is not known").waitFor();
  await login(page, "admin");
  assert.equal(await page.evaluate(() => document.cookie), "", "a script can read the cookie");
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }));
  assert.ok(!kept.includes(stage.tokens.admin), "the token is kept in the browser");

  // A denial appears while one looks.
  await open(page, "events?outcome=denied");
  await page.getByText("No such decision is remembered.").waitFor();
  for (let i = 0; i < 5; i++) await check(acme);
  const events = page.getByRole("table", { name: "Events, the latest first" });
  await events.getByText("tenant:acme").nth(1).waitFor(); // the page may ask between the two denials
  assert.equal(await events.getByRole("row").count(), 3, "a head and two denials");
  console.log("a denial appeared live");
  await shot(page, "story-1-events");

  // One of them, in full.
  await events.getByRole("rowheader").first().getByRole("link").click();
  await heading(page, "Event");
  await page.getByText("One decision").waitFor();
  await page.getByText("3 of 3").or(page.getByText("shop.tenant", { exact: true })).first().waitFor();
  await shot(page, "story-2-event");

  // The overview shows it.
  await open(page, "overview");
  await page.getByRole("table", { name: "Keys with the most denials" }).getByText("tenant:acme").waitFor();
  await page.getByRole("img", { name: /Requests per second, over the last/ }).waitFor();

  // The key, and why.
  await open(page, "keys");
  const keys = page.getByRole("table", { name: "Keys with the most requests" });
  await keys.getByRole("row", { name: /tenant:acme/ }).getByRole("link", { name: "Explain tenant:acme" }).click();
  await heading(page, "Explain");
  await page.getByText("It would be denied.").waitFor();
  await page.getByRole("row", { name: /tenant:acme.*matches/ }).waitFor();
  await page.getByText("3 of 3 used, 0 left").first().waitFor();
  await page.getByText(/^Times are those of this browser: Europe\/Berlin, UTC\+0[12]:00\.$/).waitFor();
  await shot(page, "story-3-explained");

  // The quota is raised, of the tenant that the limit counts. Somebody else changes the account meanwhile.
  await page.getByRole("link", { name: "Its events" }).click();
  await events.getByText("tenant:acme").first().waitFor();
  await page.goBack();
  await page.getByRole("link", { name: "Its tenant" }).click();
  await heading(page, "tenant:acme");
  await page.getByText("no such account: the tier free counts").waitFor();
  await page.getByRole("button", { name: "Set the default quota" }).click();
  const raise = async () => {
    await page.getByLabel("Requests", { exact: true }).fill("1000");
    await page.getByLabel("per", { exact: true }).fill("hour");
    await page.getByRole("button", { name: "Review" }).click();
    await page.getByRole("row", { name: /default .*1,000 per hour/ }).waitFor();
  };
  await raise();
  const put = await page.request.put(`${stage.base}/api/quotas/tenant:acme`, { headers: { "Content-Type": "application/json" }, data: { tier: "free" } });
  assert.equal(put.status(), 201);
  await page.getByRole("button", { name: "Change it" }).click();
  await page.getByText("Changed by somebody else meanwhile.").waitFor();
  await page.getByText(/This is there now:/).waitFor();
  await page.getByText(/tier free; default 3 per hour/).waitFor();
  await shot(page, "story-4-conflict");
  await page.getByRole("button", { name: "Look at it" }).click();
  await raise();
  await page.getByRole("button", { name: "Change it" }).click();
  await page.getByRole("status").getByText("The quota of tenant:acme is 1,000 per hour.").waitFor();
  await page.getByRole("table", { name: "Quotas in force" }).getByRole("row", { name: /default 1,000 per hour .*override/ }).waitFor();
  await until("the new quota", async () => (await check(acme)).allowed);
  await page.getByRole("table", { name: "Usage" }).getByText("of 1,000").first().waitFor();
  console.log("the quota is in force");
  await shot(page, "story-5-raised");
  await open(page, "explain?domain=shop&d=tenant:acme");
  await page.getByText("It would be allowed.").waitFor();

  // A rule goes into shadow mode, and comes back.
  const address = { remote_address: "192.0.2.1" };
  await check(address);
  assert.equal((await check(address)).allowed, false);
  await open(page, "rules");
  const rule = page.getByRole("row", { name: /remote_address/ });
  await rule.getByRole("button", { name: "Switch the rule shop.remote_address" }).click();
  await page.getByLabel("State").selectOption("shadow");
  await page.getByLabel("How long").first().selectOption("1800");
  await page.getByLabel("Reason").fill("too strict since the deploy");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("row", { name: /Switch no switch shadow until .* too strict since the deploy/ }).waitFor();
  await shot(page, "story-6-switching");
  await page.getByRole("button", { name: "Switch it" }).click();
  await rule.getByText("shadow", { exact: true }).waitFor();
  await until("the rule to be in shadow", async () => (await check(address)).allowed);
  await open(page, "events?outcome=shadow_denied");
  await page.getByRole("table", { name: "Events, the latest first" }).getByText("remote_address:192.0.2.1").first().waitFor();
  console.log("the rule is in shadow");
  await open(page, "rules/shop.remote_address");
  await page.getByRole("row", { name: /Would have been denied \(shadow\)/ }).waitFor();
  await page.getByText(/^by admin-ann, \d+ \w+ \d{4}, /).waitFor();
  await shot(page, "story-7-rule");
  await page.getByRole("button", { name: "Remove switch of the rule shop.remote_address" }).click();
  await page.getByRole("button", { name: "Remove switch", exact: true }).click();
  await until("the rule to be enforced", async () => !(await check(address)).allowed);

  // A quota for a while, a tier, and a top-up.
  await open(page, "tenants/tenant:acme");
  await page.getByRole("button", { name: "Change tier" }).click();
  await page.getByLabel("Tier", { exact: true }).selectOption("pro");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("row", { name: /Tier free pro/ }).waitFor();
  await page.getByRole("button", { name: "Change it" }).click();
  await page.getByRole("status").getByText("tenant:acme has the tier pro.").waitFor();
  await page.locator("dl.facts").getByText("pro", { exact: true }).waitFor(); // the page has read the account anew
  await page.getByRole("button", { name: "Change the quota of default" }).click();
  await page.getByLabel("Requests", { exact: true }).fill("9000");
  await page.getByLabel("How long").first().selectOption("86400");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: "Change it" }).click();
  await page.getByRole("status").getByText("The quota of tenant:acme is 9,000 per hour.").waitFor();
  const overrides = page.getByRole("table", { name: "Stored overrides" });
  await overrides.getByRole("row", { name: /default 1,000 per hour for ever/ }).waitFor();
  await overrides.getByRole("row", { name: /default 9,000 per hour from .* until/ }).waitFor();
  await page.getByRole("table", { name: "Quotas in force" }).getByRole("row", { name: /default 9,000 per hour/ }).waitFor();
  await page.getByRole("button", { name: "Add top-up" }).click();
  await page.getByLabel("Hits", { exact: true }).fill("500");
  await page.getByLabel("Id", { exact: true }).fill("invoice-7");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("button", { name: "Change it" }).click();
  await page.getByRole("table", { name: "Top-ups" }).getByRole("row", { name: /invoice-7/ }).waitFor();
  await shot(page, "story-8-tenant");

  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByText("You are logged out.").waitFor();
  assert.equal((await page.request.get(`${stage.base}/api/me`)).status(), 401);
});
