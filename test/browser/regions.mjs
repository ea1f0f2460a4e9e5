import assert from "node:assert/strict";
import { accessible, check, control, heading, login, open, play, shot, until } from "./stage.mjs";

// Somebody asks all the time, so that hits are leased.
const traffic = setInterval(() => check({ account: "acme-corp" }).catch(() => {}), 100);
try {
  for (const [name, options] of [["light", { colorScheme: "light" }], ["small", { colorScheme: "dark", viewport: { width: 360, height: 740 } }]]) {
    await play(async (page) => {
      await login(page);
      await page.keyboard.press("g");
      await page.keyboard.press("n");
      await heading(page, "Regions");
      const homes = page.getByRole("table", { name: "Homes" });
      const rules = page.getByRole("table", { name: "Rules over regions" });
      await homes.getByRole("row", { name: /^home heard / }).waitFor();
      await rules.getByRole("row", { name: /^shop.account home leased .*1,800 \+ 100 \+ 100 .*within$/ }).waitFor();
      assert.equal(await rules.getByRole("row").count(), 2, "one rule and the head");
      await page.getByText("seen from gate-1, region virginia").waitFor();
      await accessible(page, `regions, ${name}`);
      await shot(page, `${name}-regions-leased`);

      await control("cut");
      await homes.getByRole("row", { name: /^home silent nothing was heard of it for / }).waitFor({ timeout: 60000 });
      await rules.getByRole("row", { name: /^shop.account home cut off / }).waitFor();
      await page.getByText("Nothing is heard of home").waitFor();
      await page.getByText("Cut off", { exact: true }).waitFor();
      assert.equal(await homes.locator("tbody tr.old").count(), 1, "a home that is not heard is greyed");
      assert.equal(await rules.locator("tbody tr.old").count(), 1, "a rule that is cut off is greyed");
      assert.ok(!/secret|redis:/.test(await page.content()), "the address of the home is shown");
      await accessible(page, `regions cut off, ${name}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${wide} px too wide`);
      await shot(page, `${name}-regions-cut-off`);

      await control("heal");
      await homes.getByRole("row", { name: /^home heard / }).waitFor({ timeout: 60000 });
      await until("no row is greyed", async () => (await page.locator("tbody tr.old").count()) === 0);
      await open(page, "overview");
      await page.getByText("Ready", { exact: true }).waitFor();
    }, { reducedMotion: "reduce", ...options });
  }
} finally {
  clearInterval(traffic);
}
