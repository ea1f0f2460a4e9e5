import assert from "node:assert/strict";
import { accessible, login, open, play, shot } from "./stage.mjs";

for (const [name, options] of [["light", { colorScheme: "light" }], ["small", { colorScheme: "dark", viewport: { width: 360, height: 740 } }]]) {
  await play(async (page) => {
    await login(page);
    await open(page, "dual-run");
    await page.getByText("Wait", { exact: true }).first().waitFor();
    await page.getByText("4 answers were compared").waitFor();
    const causes = page.getByRole("table", { name: "Causes" });
    await causes.getByRole("row", { name: /limit 2/ }).waitFor();
    assert.equal(await causes.getByRole("row").count(), 2, "one cause and the head");
    await page.getByRole("table", { name: "Places" }).getByRole("row", { name: "shop plan limit 2" }).waitFor();
    const examples = page.getByRole("table", { name: "Examples" });
    assert.equal(await examples.getByRole("row").count(), 3, "two examples and the head");
    assert.ok(!(await page.content()).includes("acme"), "a value of a descriptor is shown");
    await accessible(page, `dual run, ${name}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${wide} px too wide`);
    await shot(page, `${name}-dual-run-found`);
  }, { reducedMotion: "reduce", ...options });
}
