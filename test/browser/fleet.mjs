import assert from "node:assert/strict";
import { accessible, check, control, login, open, play, shot } from "./stage.mjs";

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
  // One dies: it is not green any more, it is in no sum, and then it is gone.
  await control("kill?node=gate-2");
  await open(page, "fleet");
  await fleet.getByRole("row", { name: /^gate-2 (not heard of for|gone)/ }).waitFor();
  await fleet.getByRole("row", { name: /^gate-2 gone/ }).waitFor();
  await page.getByText(/^gate-2 is not heard of/).waitFor();
  await accessible(page, "a node that is gone");
  await shot(page, "fleet-gone");
  await open(page, "overview");
  await page.getByText("The sum of 2 nodes: gate-1, gate-3; 1 is not heard of and left out.").waitFor();
  await all.getByText("40", { exact: true }).waitFor();
});
