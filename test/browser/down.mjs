// Every page while the store is away.
import assert from "node:assert/strict";
import { check, control, play, login } from "./stage.mjs";
import { tour } from "./tour.mjs";

for (let i = 0; i < 6; i++) for (const tenant of ["acme", "globex"]) await check({ tenant });
await control("store/kill");

const traffic = setInterval(() => void check({ tenant: "acme" }).catch(() => {}), 150);

const told = (page) => page.getByText(/^Unknown: the store does not answer/).first().waitFor();
await play(async (page) => {
  await login(page);
  await page.getByText("Degraded", { exact: true }).or(page.getByText("Not ready", { exact: true })).first().waitFor();
});
// The servers of the store have room on a small screen.
const servers = async (page) => {
  const table = page.getByRole("group", { name: "Servers of the store" });
  await table.getByRole("row").nth(1).waitFor();
  assert.ok(await table.evaluate((t) => t.scrollWidth <= t.clientWidth), "the servers of the store are cut off");
};
await tour("down", "dark", "small", { explained: told, overview: servers });
await tour("down", "light", "wide", { explained: told, overview: servers });

clearInterval(traffic);
