import assert from "node:assert/strict";
import { accessible, check, control, heading, login, open, play, shot, until } from "./stage.mjs";

const nodes = ["", "gate-2", "gate-3"];
for (const [i, node] of nodes.entries()) for (let n = 0; n < 10 * (i + 1); n++) await check({ remote_address: `192.0.2.${n}-${node}` }, 1, { node });

await play(async (page) => {
  await login(page);
  // All of them together, without being asked for.
  await page.getByText("The sum of 3 nodes: gate-1, gate-2, gate-3.").waitFor();
  const all = page.getByRole("table", { name: "Requests by what they were answered" }).locator('[data-outcome="all"]');
  await all.getByText("60", { exact: true }).waitFor();
  await accessible(page, "the overview of a fleet");
  await shot(page, "fleet-overview");
  // One of them.
  const picker = page.getByLabel("Shown nodes");
  await picker.selectOption("gate-2");
  await page.getByText("Of the node gate-2.").waitFor();
  await all.getByText("20", { exact: true }).waitFor();
  await open(page, "rules/shop.remote_address");
  await page.getByRole("table", { name: "Outcomes of this rule" }).getByRole("row", { name: /^Allowed .* 20$/ }).waitFor();
  await picker.selectOption("");
  await page.getByRole("table", { name: "Outcomes of this rule" }).getByRole("row", { name: /^Allowed .* 60$/ }).waitFor();
  // Their history, added up, and that of one: what each has answered is in it once.
  await open(page, "history");
  await page.getByText("The sum of 3 nodes: gate-1, gate-2, gate-3.", { exact: true }).waitFor();
  await page.getByRole("img", { name: /^Requests per second, from .* to .*allowed: [^;]*at most (?:0\.\d|[1-9<])/ }).waitFor();
  const answered = (node) => page.evaluate(async (of) => {
    const line = await (await fetch(`/api/fleet/timeline?node=${of}`)).json();
    return line.points.reduce((sum, p) => sum + p.requests.allowed, 0);
  }, node);
  for (const [node, want] of [["", 60], ["gate-1", 10], ["gate-2", 20]]) await until(`the history of ${node || "all"}`, async () => (await answered(node)) === want);
  await accessible(page, "the history of a fleet");
  await shot(page, "fleet-history");
  await picker.selectOption("gate-2");
  await page.getByText("Of the node gate-2.", { exact: true }).waitFor();
  // So are the keys.
  await open(page, "keys?by=total");
  await page.getByText("20 keys of gate-2, by requests", { exact: true }).waitFor();
  await shot(page, "fleet-keys");
  await picker.selectOption("");
  await page.getByText(/^\d+ keys of 3 nodes, by requests$/).waitFor();
  // A key that another node has counted leads to its events, and to one of them, which that node tells.
  await page.getByRole("table", { name: "Keys with the most requests" }).locator("tr").filter({ hasText: "192.0.2.3-gate-3" }).count().then((n) => assert.equal(n, 0, "a name that this node has not seen"));
  await picker.selectOption("gate-3");
  await page.getByText("30 keys of gate-3, by requests", { exact: true }).or(page.getByText("20 keys of gate-3, by requests", { exact: true })).waitFor();
  await page.getByRole("link", { name: /^Events of / }).first().click();
  const events = page.getByRole("table", { name: "Events, the latest first" });
  await page.getByText(/^Of the node gate-3\. Asked at/).waitFor();
  const told = events.getByRole("row", { name: /allowed remote_address:192\.0\.2\.\d+-gate-3 .* gate-3$/ });
  await told.first().waitFor();
  assert.equal(await told.count(), 1);
  await open(page, "events");
  await page.getByText(/^Of the node gate-3\. Asked at/).waitFor();
  await page.goBack();
  await told.first().waitFor();
  await picker.selectOption("");
  await page.getByText(/^Of 3 nodes: gate-1, gate-2, gate-3\. Asked at/).waitFor();
  await told.first().waitFor();
  await accessible(page, "events of all nodes");
  await shot(page, "fleet-events");
  await told.getByRole("rowheader").getByRole("link").click();
  await heading(page, "Event");
  assert.match(page.url(), /node=gate-3$/);
  // What it says can be explained here: the store counts, whichever node has asked it.
  await page.getByRole("link", { name: "Explain it now" }).click();
  await page.getByText("It would be denied.").waitFor();
  await page.getByText("1 of 1 used, 0 left").first().waitFor();
  await page.goBack();
  await page.getByRole("link", { name: "Events of the key" }).click();
  await page.getByText(/^Of 3 nodes/).waitFor();
  await told.first().waitFor();
  // This node alone, live, does not remember it, and leads to all.
  await page.getByLabel("Nodes", { exact: true }).selectOption("");
  await page.getByText("Of the node gate-1, as they come.").waitFor();
  await page.getByText("No such decision is remembered.").waitFor();
  await page.getByRole("button", { name: "Ask all nodes" }).click();
  await told.first().waitFor();
  // Where they differ.
  await open(page, "fleet");
  const fleet = page.getByRole("table", { name: "Nodes" });
  await page.getByText("gate-3 has other rules than most.").waitFor();
  await page.getByText("gate-3 has other settings than most: rules.").waitFor();
  await fleet.getByRole("row", { name: /^gate-3 ready .*differs/ }).waitFor();
  await fleet.getByRole("row", { name: /^gate-2 ready/ }).waitFor();
  assert.equal(await fleet.getByRole("row", { name: /^gate-2 .*differs/ }).count(), 0, "gate-2 is as most are");
  await accessible(page, "the fleet");
  await shot(page, "fleet-nodes");
  // From node to node.
  await fleet.getByRole("link", { name: "gate-3" }).click();
  await page.getByText("Of the node gate-3.").waitFor();
  await picker.selectOption("");
  await page.getByText(/^The sum of 3 nodes/).waitFor();
  // Rules are reviewed by the requests of all: each of two nodes has had one of this address.
  for (const node of ["", "gate-3"]) await check({ remote_address: "198.51.100.7" }, 1, { node });
  await open(page, "edit");
  await page.locator("main li a").first().click();
  const rules = page.getByLabel(/^Rules of /);
  await rules.waitFor();
  await rules.fill((await rules.inputValue()).replace(/1\}\s*$/, "2}\n"));
  const review = page.getByRole("region", { name: "Review" });
  const byNode = review.getByRole("table", { name: "Events by node" });
  await until("all nodes to tell of their events", async () => {
    await page.getByRole("button", { name: "Review", exact: true }).click();
    await page.locator(".newly").waitFor();
    return (await byNode.count()) === 1 && (await byNode.getByText("missing").count()) === 0;
  });
  for (const row of ["gate-1 11", "gate-2 20", "gate-3 31"]) await byNode.getByRole("row", { name: row, exact: true }).waitFor();
  await review.locator("p").filter({ hasText: /0 would be newly denied.* and 1 newly allowed\.$/ }).waitFor();
  await accessible(page, "a review by all nodes");
  await shot(page, "fleet-review");
  // One dies: it is not green any more, it is in no sum, and then it is gone.
  await control("kill?node=gate-2");
  await open(page, "fleet");
  await fleet.getByRole("row", { name: /^gate-2 (not heard of for|gone)/ }).waitFor();
  await fleet.getByRole("row", { name: /^gate-2 gone/ }).waitFor();
  // The head says since when, and a link in it keeps the focus meanwhile.
  const missing = page.locator(".strip p").filter({ hasText: /^gate-2 is not heard of/ });
  await missing.getByRole("link", { name: "Fleet" }).focus();
  const said = await missing.textContent();
  await until("the head to say how long ago by now", async () => (await missing.textContent()) !== said);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Fleet", "the head has lost the focus");
  await accessible(page, "a node that is gone");
  await shot(page, "fleet-gone");
  await open(page, "history");
  await page.getByText("The sum of 2 nodes: gate-1, gate-3.", { exact: true }).waitFor();
  await page.getByText("gate-2 is not heard of any more: what it answered is not in these numbers.").waitFor();
  await page.locator('.main-chart .shade[d^="M"]').waitFor({ state: "attached" });
  await accessible(page, "a history that is not whole");
  await shot(page, "fleet-history-gone");
  await open(page, "overview");
  await page.getByText("The sum of 2 nodes: gate-1, gate-3; 1 is not heard of and left out.").waitFor();
  await all.getByText("42", { exact: true }).waitFor();
});
