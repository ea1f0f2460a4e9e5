import assert from "node:assert/strict";
import { check, login, metrics, open, play, shot, until } from "./stage.mjs";
import { outcomeRows, requestRows } from "../../internal/dashboard/assets/counts.js";

// Requests of all kinds, in a random mixture that is another one each time; it is printed.
const seed = Date.now() % 1e6;
console.log(`seed ${seed}`);
let state = seed + 1;
const random = (most) => (state = (state * 48271) % 2147483647) % most;
const kinds = [() => ({ tenant: "acme" }), () => ({ tenant: `t${random(50)}`, endpoint: "POST /v1/orders" }), () => ({ login: `l${random(5)}` }), () => ({ guarded: `g${random(9)}` }), () => ({ calls: `c${random(9)}`, call_id: `${random(1000)}` }), () => ({ nothing: "x" })];
for (let i = 0; i < 200; i++) await check(kinds[random(kinds.length)](), 1, { node: random(2) ? "gate-2" : "", domain: random(8) ? "shop" : "shpo" });

const nodes = ["", "gate-2"];
const counted = await Promise.all(nodes.map(metrics));
const sum = (key, list = counted) => list.reduce((all, m) => all + (m.get(key) ?? 0), 0);
const number = async (cell) => Number((await cell.textContent()).replaceAll(",", ""));

await play(async (page) => {
  await login(page);
  for (const [name, list] of [["", counted], ["gate-1", [counted[0]]], ["gate-2", [counted[1]]]]) {
    await page.getByLabel("Shown nodes").selectOption(name);
    await open(page, "overview");
    const rows = page.getByRole("table", { name: "Requests by what they were answered" });
    const of = (outcome) => rows.locator(`[data-outcome="${outcome}"] td`).last();
    const all = requestRows.reduce((total, [key]) => total + sum(`headgate_requests_total  ${key}`, list), 0);
    await until(`the requests of ${name || "all"}`, async () => (await number(of("all"))) === all);
    for (const [key] of requestRows) assert.equal(await number(of(key)), sum(`headgate_requests_total  ${key}`, list), `${name}: requests ${key}`);
    for (const rule of ["shop.login", "shop.guarded", "shop.calls"]) {
      await open(page, `rules/${rule}`);
      const outcomes = page.getByRole("table", { name: "Outcomes of this rule" });
      await outcomes.getByRole("row").nth(1).waitFor();
      for (const [key, label] of outcomeRows) {
        const cell = outcomes.getByRole("row").filter({ has: page.getByRole("rowheader", { name: label, exact: true }) }).getByRole("cell").last();
        await until(`${name}: ${rule} ${key}`, async () => (await number(cell)) === sum(`headgate_decisions_total ${rule} ${key}`, list));
      }
    }
  }
  await page.getByLabel("Shown nodes").selectOption("");
  await open(page, "rules");
  for (const rule of ["login", "guarded", "calls"]) {
    const denied = ["denied", "local_denied", "open_denied", "degraded_denied"].reduce((total, key) => total + sum(`headgate_decisions_total shop.${rule} ${key}`), 0);
    const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: rule, exact: true }) });
    await until(`denials of ${rule}`, async () => (await number(row.getByRole("cell").nth(4))) === denied);
  }
  await shot(page, "sums-rules");

  // Nodes without a common key tell each other no events: the page says so, and shows those of its own node.
  await open(page, "events?of=all&outcome=over");
  await page.getByText("Nothing of gate-2 is in it: nodes tell each other this only with one --audit-hash-key on all of them.").waitFor();
  await page.getByText(/^Of the node gate-1[;.].* Asked at/).waitFor();
});
