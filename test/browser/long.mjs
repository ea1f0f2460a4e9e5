import assert from "node:assert/strict";
import { check, login, open, pages, play, shot, stage } from "./stage.mjs";
import { untidy } from "./tour.mjs";

const json = { "Content-Type": "application/json" };
const long = `tenant:${"x".repeat(200)}`;
const rule = `shop.${"long".repeat(20)}`;
for (let i = 0; i < 2; i++) await check({ [rule.slice("shop.".length)]: "x".repeat(200) });

for (const width of [360, 820, 1280]) {
  await play(async (page) => {
    await login(page);
    const put = async (path, data) => assert.ok((await page.request.put(`${stage.base}/api/${path}`, { headers: json, data })).ok(), path);
    const until = new Date(Date.now() + 3600e3).toISOString();
    await put(`quotas/${long}`, { tier: "pro" });
    await put("switches/rule:shop.tenant", { state: "shadow", reason: `https://issues.example.com/${"x".repeat(150)}` });
    await put("switches/raise:shop.tenant", { state: "raised", raise: 20, until, tenants: [long], reason: "x".repeat(150) });
    await page.getByLabel("Shown nodes").waitFor();
    await page.locator(".strip").getByText("https://issues.example.com").waitFor();
    for (const hash of [...pages, `tenants/${long}`, `rules/${rule}`, "rules/shop.tenant", `explain?domain=shop&d=${long}`]) {
      await open(page, hash);
      await page.locator(".page .spinner").first().waitFor({ state: "detached" });
      const [wide, head] = await page.evaluate(() => {
        const boxes = [...document.querySelectorAll(".brand, .health, .node, .mark, .picker, .tools > *")].map((e) => ({ name: e.className || e.textContent, at: e.getBoundingClientRect() })).filter(({ at }) => at.width);
        const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
        return [document.documentElement.scrollWidth - innerWidth, boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => over(a.at, b.at)).map((b) => `${a.name} stands over ${b.name}`))];
      });
      assert.ok(wide <= 0, `${hash}, ${width} px: ${wide} px too wide`);
      assert.deepEqual(head, [], `${hash}, ${width} px`);
      assert.deepEqual(await page.evaluate(untidy), [], `${hash}, ${width} px: untidy`);
    }
    await shot(page, `long-${width}`);
    // A name is broken where it is too long, and not after each letter.
    for (const [hash, name] of [["tenants", long], ["switches", "the rule shop.tenant"]]) {
      await open(page, hash);
      const cell = page.getByRole("rowheader").filter({ has: page.getByRole("link", { name, exact: true }) });
      assert.ok(await cell.evaluate((c) => c.clientWidth >= 140), `${hash}, ${width} px: no room for a name`);
    }
  }, { viewport: { width, height: 740 } });
}
