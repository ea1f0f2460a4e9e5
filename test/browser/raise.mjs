import assert from "node:assert/strict";
import { accessible, check, heading, login, open, play, shot, stage, until } from "./stage.mjs";

// What is hot is asked for in batches, so that a busy machine keeps up.
const batch = JSON.stringify({ checks: Array.from({ length: 500 }, () => ({ domain: "shop", descriptors: [{ descriptor: "busy:launch" }] })) });
const asked = setInterval(() => fetch(`${stage.control}/check`, { method: "POST", body: batch }).catch(() => {}), 100);

await play(async (page) => {
  await login(page, "admin");

  // A customer is denied. Its limit, and nobody else's, is raised from the list of keys.
  for (let i = 0; i < 4; i++) await check({ tenant: "globex" });
  for (let i = 0; i < 4; i++) await check({ tenant: "initech" });
  await open(page, "keys");
  await page.getByRole("button", { name: "Raise the limit of tenant:globex" }).click();
  await page.getByLabel("By how many per cent").fill("100");
  assert.equal(await page.getByLabel("For", { exact: true }).inputValue(), "tenant:globex");
  assert.equal(await page.getByLabel("How long").first().locator("option").first().textContent(), "for 30 minutes", "a raise without an end");
  await page.getByLabel("Reason").fill("their launch");
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("row", { name: /Limit not raised raised by 100 % for tenant:globex until \d+ \w+ \d{4}, \d\d:\d\d$/ }).waitFor();
  await shot(page, "raise-1-review");
  await page.getByRole("button", { name: "Raise it" }).click();
  await page.getByRole("status").getByText("The limit of shop.tenant is raised by 100 %.").waitFor();
  await until("the raised limit", async () => (await check({ tenant: "globex" })).allowed);
  assert.equal((await check({ tenant: "initech" })).allowed, false, "another's limit is raised too");

  // So does the page of all switches, where it is a raise and nothing else, and leads to the rule.
  await open(page, "switches");
  const there = page.getByRole("table", { name: "Switches" }).getByRole("row", { name: /^the limit of shop\.tenant / });
  await there.getByRole("button", { name: "End the raise of the limit of shop.tenant" }).waitFor();
  assert.equal(await there.getByRole("button", { name: /witch/ }).count(), 0, "a raise is offered as a switch");
  await there.getByRole("button", { name: "Raise the limit of shop.tenant" }).click();
  assert.equal(await page.getByLabel("By how many per cent").inputValue(), "100");
  await page.getByRole("button", { name: "Cancel" }).click();
  await there.getByRole("link").click();

  // The page of the rule shows it, and ends it.
  await heading(page, "shop.tenant");
  await page.getByText("raised by 100 % for 1 tenant", { exact: true }).waitFor();
  await page.getByText("tenant:globex", { exact: true }).waitFor();
  await accessible(page, "a raised rule");
  await shot(page, "raise-2-rule");
  await page.getByRole("button", { name: "End the raise of the limit of shop.tenant" }).click();
  await page.getByRole("row", { name: /Limit raised by 100 % for tenant:globex until .* as the rule says/ }).waitFor();
  await page.getByRole("button", { name: "End it" }).click();
  await page.getByText("not raised", { exact: true }).waitFor();
  await until("the limit of the rule", async () => !(await check({ tenant: "globex" })).allowed);

  // A sensitive rule is not raised, and the dialog says why.
  await open(page, "rules/shop.login");
  await page.getByRole("button", { name: "Raise the limit of shop.login" }).click();
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("This is for all keys of the rule, on all nodes that share this database or store.").waitFor();
  await page.getByRole("button", { name: "Raise it" }).click();
  await page.getByRole("alert").getByText(/the rule is sensitive/).waitFor();
  await page.getByRole("button", { name: "Back" }).click();
  await page.getByRole("button", { name: "Cancel" }).click();

  // What rules raise by themselves is on the page of the rule.
  await open(page, "rules/shop.busy");
  await heading(page, "shop.busy");
  await page.getByRole("table", { name: "Hot keys that the rule raises by itself" }).getByRole("row", { name: /50 %.*gate-1/ }).waitFor();
  await shot(page, "raise-3-hot");
});

clearInterval(asked);

await play(async (page) => {
  await login(page, "write");
  await open(page, "rules/shop.tenant");
  assert.ok(await page.getByRole("button", { name: "Raise the limit of shop.tenant" }).isDisabled(), "write may raise limits");
  await open(page, "keys");
  await page.getByRole("link", { name: /Events of tenant:/ }).first().waitFor();
  assert.equal(await page.getByRole("button", { name: /Raise the limit/ }).count(), 0, "write may raise limits of keys");
});
