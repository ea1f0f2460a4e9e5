import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { check, login, open, play, stage, until } from "./stage.mjs";

// Somebody asks in the name of a formula.
const formula = "=HYPERLINK(1)";
for (let i = 0; i < 5; i++) for (const tenant of ["acme", formula]) await check({ tenant });

// rowsOf reads CSV, quotes and all.
function rowsOf(text) {
  const rows = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    rows.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === "\r\n") rows.push([]);
  }
  return rows.slice(0, -1);
}

await play(async (page) => {
  await login(page);
  // exported presses the button of the page that is shown: the rows by their names.
  const exported = async (what) => {
    const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export as CSV" }).click()]);
    assert.match(file.suggestedFilename(), new RegExp(`^headgate-${what}-[-\\dTZ]+\\.csv$`));
    const [names, ...rows] = rowsOf(await readFile(await file.path(), "utf8"));
    for (const row of rows) {
      assert.equal(row.length, names.length, row.join());
      for (const cell of row) assert.doesNotMatch(cell, /^[=+@\t]|^-[^\d]/, "a formula");
    }
    return rows.map((row) => Object.fromEntries(row.map((cell, i) => [names[i], cell])));
  };

  await open(page, "events?outcome=denied");
  const events = page.getByRole("table", { name: "Events, the latest first" });
  await events.getByRole("row", { name: /acme/ }).first().waitFor();
  const listed = await events.getByRole("rowheader").count();
  const found = await exported("events");
  assert.equal(found.length, listed, "the events that are shown");
  assert.ok(found.some((e) => e.outcome === "denied" && e.key === "tenant:acme" && e.rule === "shop.tenant" && e.limit === "3" && /^\d{4}-.*Z$/.test(e.time)));

  await open(page, "keys");
  await page.getByRole("table", { name: "Keys with the most requests" }).getByRole("row", { name: /acme/ }).waitFor();
  const keys = await exported("keys");
  assert.ok(keys.some((k) => k.key === "tenant:acme" && Number(k.denied) > 0));
  assert.ok(keys.some((k) => k.key.includes(formula)));

  // A filter of the page is one of the file.
  await open(page, "rules");
  await page.getByRole("table", { name: "Rules of the domain shop" }).getByRole("row", { name: /remote_address/ }).waitFor();
  assert.ok((await exported("rules")).length > 3);
  await page.getByLabel("Find").fill("remote");
  await page.getByRole("table", { name: "Rules of the domain shop" }).getByRole("row", { name: /endpoint/ }).first().waitFor({ state: "hidden" });
  const rules = await exported("rules");
  assert.deepEqual(rules.map((r) => [r.id, r.domain, r.shadow]), [["shop.remote_address", "shop", "false"]]);
  assert.match(rules[0].limits, /^1 per 1h/);

  await open(page, "fleet");
  await page.getByRole("table", { name: "Nodes" }).getByRole("row", { name: /gate-1/ }).waitFor();
  assert.deepEqual((await exported("fleet")).map((n) => [n.node, n.heard, n.ready]), [["gate-1", "true", "true"]]);

  // All accounts, more than a page shows; a name that is a formula is none in the file.
  const put = (name, data) => until(`the account ${name}`, async () => {
    const status = (await page.request.put(`${stage.base}/api/quotas/${encodeURIComponent(name)}`, { headers: { "Content-Type": "application/json" }, data })).status();
    assert.ok([200, 201, 429].includes(status), `${name}: ${status}`); // so many a second
    return status !== 429;
  });
  for (let i = 0; i < 60; i++) await put(`tenant:t${i}`, { tier: "free" });
  await put(`tenant:${formula}`, { tier: "pro", overrides: [{ descriptor: "endpoint:POST /v1/orders", requests_per_unit: 40, unit: "minute" }] });
  await open(page, "tenants");
  await page.getByRole("table", { name: "Accounts" }).getByRole("row").nth(50).waitFor();
  const accounts = await exported("accounts");
  assert.equal(accounts.length, 61);
  const one = accounts.find((a) => a.tier === "pro");
  assert.equal(one.quota, "200 per minute and 5,000 per hour");
  assert.deepEqual(JSON.parse(one.overrides).map((o) => o.requests_per_unit), [40]);
  await page.getByLabel("Tier", { exact: true }).selectOption("pro");
  await page.getByRole("table", { name: "Accounts" }).getByRole("row").nth(2).waitFor({ state: "detached" });
  assert.equal((await exported("accounts")).length, 1);
}, { acceptDownloads: true });
