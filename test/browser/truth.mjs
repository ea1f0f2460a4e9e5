import assert from "node:assert/strict";
import { accessible, check, heading, login, open, pages, play, shot, stage } from "./stage.mjs";
import { untidy } from "./tour.mjs";

const json = { "Content-Type": "application/json" };

for (let i = 0; i < 4; i++) await check({ login: "ann" });
for (let i = 0; i < 2; i++) await check({ guarded: "ann" });
for (const id of ["1", "2"]) await check({ calls: "ann", call_id: id });
let traffic = null;

await play(async (page) => {
  await login(page);
  assert.equal(await page.locator(".strip:not(:empty)").count(), 0, "something stands in the head of a quiet node");

  // An address that names no page.
  await open(page, "nonexistent");
  await heading(page, "No such page");
  await page.getByText("There is no page nonexistent.").waitFor();

  // Kinds of limits.
  await open(page, "events?outcome=denied");
  const events = page.getByRole("table", { name: "Events, the latest first" });
  await events.getByRole("row", { name: /denied: banned .*denials/ }).first().waitFor();
  await events.getByRole("row", { name: /denied: secondary limit/ }).waitFor();
  await events.getByRole("row", { name: /denied: too many in flight .*in flight/ }).waitFor();
  await shot(page, "truth-events");
  await events.getByRole("row", { name: /denied: banned/ }).first().getByRole("rowheader").getByRole("link").click();
  await heading(page, "Event");
  await page.getByText(/, ban$/).waitFor();

  // What a rule matches, and its tree where it has a name.
  await open(page, "rules");
  const tree = page.getByRole("table", { name: "Rules of the domain shop" });
  await tree.getByRole("row", { name: /^tenant shop\.by_tenant tenant 3 per hour/ }).or(tree.getByRole("row", { name: /^tenant .*by_tenant/ })).first().waitFor();
  assert.equal(await tree.locator("th.depth-1").count(), 1, "the endpoint stands below the tenant");
  await tree.getByRole("row", { name: /^login ban/ }).waitFor();
  await page.getByText("a request that meets two limits counts twice here").first().waitFor();
  await accessible(page, "rules with roles");
  await tree.locator("th.depth-1 a").click();
  await page.getByText("endpoint_POST /v1/orders").first().waitFor();
  await page.getByText("failure mode open").waitFor();
  await shot(page, "truth-rule");
  // What else it does stands there too, and in the tree in a word.
  await open(page, "rules");
  await tree.getByRole("row", { name: /^plan .*schedule .*soft limit/ }).waitFor();
  await tree.getByRole("link", { name: "plan", exact: true }).click();
  const facts = page.getByRole("region", { name: "Rule", exact: true });
  for (const words of [/^Soft limit.*80 ?%/, /^Schedule.*Europe\/Berlin/, /^Candidateenforced for nobody yet/, /^Limits100 per 1h.*candidate: 90 per 1h/]) await facts.locator(".facts > div").filter({ hasText: words }).waitFor();
  await page.getByRole("table", { name: /andidate/ }).getByRole("row").nth(1).waitFor();
  assert.deepEqual(await page.evaluate(untidy), [], "the page of a rule with a candidate: untidy");
  await shot(page, "truth-plan");

  // A switch stands on every page.
  const until = new Date(Date.now() + 3600e3).toISOString();
  assert.equal((await page.request.put(`${stage.base}/api/switches/all`, { headers: json, data: { state: "shadow", reason: "deploy of May", until } })).status(), 201);
  const strip = page.getByText(/^Everything: shadow · by admin-ann, \d+ \w+ \d{4}, \d\d:\d\d · until .* · deploy of May$/);
  for (const name of pages) {
    await open(page, name);
    await strip.waitFor();
  }
  await accessible(page, "a switch in the head");
  await open(page, "switches");
  await page.getByRole("button", { name: "Remove switch of everything" }).waitFor();
  await shot(page, "truth-switches");
  await open(page, "changes");
  await page.getByRole("table", { name: "Changes, the latest first" }).getByRole("row", { name: /admin-ann switch all/ }).waitFor();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export as CSV" }).click()]);
  assert.match(file.suggestedFilename(), /^headgate-changes-.*\.csv$/);
  await shot(page, "truth-changes");
  assert.equal((await page.request.delete(`${stage.base}/api/switches/all`)).status(), 204);
  await strip.waitFor({ state: "detached" });

  // Nothing checks an unknown domain: that is said on every page, and is a series of its own.
  traffic = setInterval(() => check({ tenant: "acme" }, 1, { domain: "shpo" }).catch(() => {}), 100);
  await open(page, "overview");
  await page.getByText(/name a domain that has no rules: they pass, and nobody checks them/).waitFor();
  const answers = page.getByRole("table", { name: "Requests by what they were answered" });
  await answers.getByRole("row", { name: /^Unknown domain .*\/s [1-9]/ }).waitFor();
  await page.locator(".legend").first().getByText("unknown domain").waitFor();
  await accessible(page, "a warning in the head");
  await shot(page, "truth-unknown");
  await open(page, "explain?domain=shpo&d=tenant:acme");
  await page.locator(".verdict.tone-warn").getByText("There is no domain shpo.").waitFor();
  clearInterval(traffic);

  // A quota of several limits is changed without loss of any.
  assert.equal((await page.request.put(`${stage.base}/api/quotas/tenant:acme`, { headers: json, data: { tier: "pro" } })).status(), 201);
  await open(page, "tenants/tenant:acme");
  await page.getByRole("button", { name: "Change the quota of default" }).click();
  const dialog = page.getByRole("dialog");
  const one = (n) => dialog.getByRole("group", { name: `Limit ${n}` });
  assert.equal(await one(2).getByLabel("Requests", { exact: true }).inputValue(), "5000");
  assert.equal(await one(2).getByLabel("per", { exact: true }).inputValue(), "hour");
  await accessible(page, "the dialog of several limits");
  await one(1).getByLabel("Requests", { exact: true }).fill("1000");
  await dialog.getByRole("button", { name: "Add a limit" }).click();
  await one(3).getByLabel("Requests", { exact: true }).fill("90000");
  await one(3).getByLabel("per", { exact: true }).fill("hour");
  await dialog.getByRole("button", { name: "Review" }).click();
  await dialog.getByRole("cell", { name: "1,000 per minute and 5,000 per hour and 90,000 per hour" }).waitFor();
  await dialog.getByRole("button", { name: "Change it" }).click();
  await dialog.getByText(/a second limit per hour/).first().waitFor();
  await dialog.getByRole("button", { name: "Back" }).click();
  await one(3).getByLabel("per", { exact: true }).fill("day");
  await one(2).getByRole("button", { name: "Remove the limit" }).click();
  assert.equal(await one(2).getByLabel("Requests", { exact: true }).inputValue(), "90000");
  await shot(page, "truth-limits");
  await dialog.getByRole("button", { name: "Review" }).click();
  await dialog.getByRole("button", { name: "Change it" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByRole("table", { name: "Quotas in force" }).getByRole("row", { name: /default 1,000 per minute and 90,000 per day/ }).waitFor();
  await page.getByRole("table", { name: "Stored overrides" }).getByRole("row", { name: /default 1,000 per minute and 90,000 per day for ever/ }).waitFor();
  const { account } = await (await page.request.get(`${stage.base}/api/quotas/tenant:acme`)).json();
  assert.deepEqual(account.overrides, [{ descriptor: "default", limits: [{ requests_per_unit: 1000, unit: "minute" }, { requests_per_unit: 90000, unit: "day" }] }]);
}, { acceptDownloads: true }).finally(() => clearInterval(traffic));
