import assert from "node:assert/strict";
import { accessible, login, open, play, shot } from "./stage.mjs";

const begin = (page, body) => page.evaluate(async (order) => {
  const response = await fetch("/api/drill", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(order) });
  return response.status;
}, body);

await play(async (page) => {
  await login(page, "admin");
  assert.equal(await page.getByText("Drill", { exact: true }).count(), 0, "a drill that there is not");
  assert.equal(await begin(page, { fault: "store-down", lasts_ms: 600000, reason: "rehearsal of May" }), 201);
  // Every page says so.
  for (const name of ["overview", "keys", "rules", "tenants", "explain", "events", "fleet", "accuracy", "dual-run"]) {
    await open(page, name);
    await page.getByText("store-down of all stores, by admin-ann: rehearsal of May · ends in").waitFor();
  }
  await accessible(page, "a drill");
  await shot(page, "drill");
  assert.equal(await begin(page, { fault: "store-slow" }), 409, "a second drill");
  await page.getByRole("button", { name: "End it" }).click();
  await page.getByText("Drill", { exact: true }).waitFor({ state: "detached" });
  assert.equal(await begin(page, { fault: "store-down", lasts_ms: 600000 }), 201);
});

await play(async (page) => {
  await login(page, "write");
  await page.getByText("store-down of all stores, by admin-ann").waitFor();
  assert.equal(await page.getByRole("button", { name: "End it" }).count(), 0, "write may end a drill");
  assert.equal(await begin(page, { fault: "store-slow" }), 403);
});
