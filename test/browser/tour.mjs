// A tour looks at every page in one theme and at one width, and demands what holds of each: no
// fault that axe-core finds, nothing wider than the screen, no table that a wide screen cuts off, no
// name of a setting on two lines, no words of a chart over others, nothing still awaited, and
// nothing of what play refuses.

import assert from "node:assert/strict";
import { accessible, login, open, pages, play, shot, stage } from "./stage.mjs";

const more = [["explained", "explain?domain=shop&d=tenant:acme,endpoint:POST%20/v1/orders&d=remote_address:192.0.2.1"], ["tenant", "tenants/tenant:acme"], ["rule", "rules/shop.tenant"], ["editor", "edit/document/new.yaml"]];

const widths = { wide: { width: 1280, height: 860 }, middle: { width: 820, height: 1180 }, small: { width: 360, height: 740 } };

// tour goes through all pages, in a state of the node that the shots are named by. What is
// waited for on a page by the name of it is in settled.
export async function tour(state, theme, width, settled = {}) {
  const name = `${state}-${theme}-${width}`;
  await play(async (page) => {
    await page.goto(stage.base);
    await page.getByLabel("Token").waitFor();
    await looked(page, `${name}-login`);
    await login(page);
    for (const [what, hash] of [...pages.map((p) => [p, p]), ...more]) {
      await open(page, hash);
      await page.locator(".page .spinner").first().waitFor({ state: "detached" });
      await settled[what]?.(page);
      await looked(page, `${name}-${what}`);
    }
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await looked(page, `${name}-dialog`);
  }, { reducedMotion: "reduce", colorScheme: theme, viewport: widths[width] });
}

async function looked(page, name) {
  const rules = await accessible(page, name);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${name}: ${wide} px too wide`);
  assert.deepEqual(await page.evaluate(untidy), [], `${name}: untidy`);
  await shot(page, name);
  console.log(`${name}: ${rules} rules of axe-core, no fault`);
}

// untidy runs in a page, and returns what looks wrong in it.
export function untidy() {
  const found = [];
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = words.nextNode(); node; node = words.nextNode()) {
    if (node.parentElement.closest("pre, textarea, .key, [hidden]")) continue;
    for (const { 0: setting, index } of node.data.matchAll(/--[a-z][a-z-]*[a-z]/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + setting.length);
      if (range.getClientRects().length > 1) found.push(`${setting} stands on two lines`);
    }
  }
  if (innerWidth >= 1280) {
    for (const table of document.querySelectorAll(".scroll")) if (table.scrollWidth > table.clientWidth) found.push(`${table.getAttribute("aria-label")} is cut off by ${table.scrollWidth - table.clientWidth} px`);
  }
  for (const plot of document.querySelectorAll(".plot")) {
    const boxes = [...plot.querySelectorAll("text")].map((t) => ({ text: t.textContent, at: t.getBoundingClientRect() })).filter(({ at }) => at.width);
    const over = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    boxes.forEach((a, i) => boxes.slice(i + 1).filter((b) => over(a.at, b.at)).forEach((b) => found.push(`${a.text} stands over ${b.text}`)));
  }
  return found;
}

// explained waits for an explanation.
export const explained = (page) => page.getByText("As text").waitFor();
