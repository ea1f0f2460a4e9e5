import assert from "node:assert/strict";
import { accessible, play, shot, stage } from "./stage.mjs";

await play(async (page) => {
  await page.goto(stage.file);
  await page.getByRole("heading", { name: "Headgate", exact: true }).waitFor();
  await page.getByRole("link", { name: "Start in five minutes", exact: true }).click();
  await page.getByRole("heading", { name: "1. Write a rule" }).waitFor();

  // By the keyboard alone, from a page below: what is found is there, in the order of its worth.
  await page.keyboard.press("/");
  await page.keyboard.type("Retry-After longer than window");
  const found = page.locator("#results a");
  await found.first().waitFor();
  assert.match(await found.first().innerText(), /^Questions and answers - Retry-After is longer than my window/);
  assert.ok((await found.count()) <= 12);
  assert.ok((await page.locator("#results mark").count()) > 0, "the word is marked");
  await shot(page, "docs-search");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Retry-After is longer than my window" }).waitFor();
  assert.match(page.url(), /^file:.*\/docs\/faq\.html#retry-after-is-longer-than-my-window$/);
  await accessible(page, "documentation");

  await page.getByRole("searchbox").fill("qqqq<img src=x>");
  await page.getByText("Nothing has all of these words.").waitFor();
  assert.equal(await page.locator("img").count(), 0);
  await page.keyboard.press("Escape");
  await page.locator("#results").waitFor({ state: "hidden" });

  // What the other pages have besides: boxes to tick off, and a small screen.
  await page.setViewportSize({ width: 400, height: 800 });
  await page.getByText("All pages", { exact: true }).click();
  await page.getByRole("link", { name: "Before production", exact: true }).click();
  await page.getByRole("checkbox", { name: "done" }).first().check();
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "it does not scroll sideways");
  await accessible(page, "checklist");
  await shot(page, "docs-checklist");
});
