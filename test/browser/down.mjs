// Every page while the store is away.
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
await tour("down", "dark", "small", { explained: told });

clearInterval(traffic);
