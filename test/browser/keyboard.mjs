import assert from "node:assert/strict";
import { check, heading, pages, play, shot, stage, until } from "./stage.mjs";

// focused is what the keyboard is at, as it is called and what it is.
const focused = (page) => page.evaluate(() => {
  const e = document.activeElement;
  return `${e.tagName.toLowerCase()} ${(e.getAttribute("aria-label") ?? e.labels?.[0]?.textContent ?? e.textContent).trim()}`;
});

// reach presses Tab until something has the focus.
async function reach(page, wanted, key = "Tab") {
  const seen = [];
  for (let i = 0; i < 80; i++) {
    const is = await focused(page);
    if (is.includes(wanted)) return;
    seen.push(is);
    await page.keyboard.press(key);
  }
  assert.fail(`${wanted} is not reached by ${key}: ${seen.join(" | ")}`);
}

// outlined reports whether one can see where the focus is.
const outlined = (page) => page.evaluate(() => {
  const style = getComputedStyle(document.activeElement);
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
});

for (let i = 0; i < 5; i++) await check({ tenant: "acme" });

await play(async (page) => {
  await page.goto(stage.base);
  await page.getByLabel("Token").waitFor();
  assert.equal(await focused(page), "input Token");
  await page.keyboard.type(stage.tokens.admin);
  await page.keyboard.press("Enter");
  await heading(page, "Overview");

  // The first Tab is the way past the navigation.
  await page.reload();
  await heading(page, "Overview");
  await page.keyboard.press("Tab");
  assert.equal(await focused(page), "a Skip to the page");
  assert.ok(await outlined(page), "the focus is not seen");
  await page.keyboard.press("Enter");
  assert.equal(await focused(page), "h1 Overview");

  // Two keys for each page; its heading then has the focus.
  for (const [key, title] of [["o", "Overview"], ["k", "Limited keys"], ["r", "Rules"], ["w", "Edit rules"], ["t", "Tenants"], ["x", "Explain"], ["e", "Events"], ["h", "History"], ["f", "Fleet"], ["s", "Switches"], ["c", "Changes"], ["i", "Settings"], ["a", "Accuracy"], ["n", "Regions"], ["d", "Dual run"]]) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await heading(page, title);
    assert.equal(await focused(page), `h1 ${title}`);
    assert.match(await page.title(), new RegExp(`^${title} `));
  }
  assert.equal(pages.length, 15);

  // The navigation by Tab, with the page that is shown marked.
  await reach(page, "a Rules", "Shift+Tab");
  assert.ok(await outlined(page), "the focus is not seen");
  await page.keyboard.press("Enter");
  await heading(page, "Rules");
  assert.equal(await page.locator("nav [aria-current=page]").textContent(), "Rules");

  // The search, and letters in it are no shortcuts.
  await page.keyboard.press("/");
  assert.equal(await focused(page), "input Find");
  await page.keyboard.type("gt?remote");
  await page.getByRole("row", { name: /remote_address/ }).waitFor({ state: "hidden" });
  await heading(page, "Rules");
  for (let i = 0; i < 9; i++) await page.keyboard.press("Backspace");
  await page.keyboard.type("remote");
  await page.getByRole("row", { name: /remote_address/ }).waitFor();

  // A switch, from the button to its confirmation, and the focus comes back. The button is
  // there when the switches have been asked for.
  await page.getByRole("button", { name: "Switch the rule shop.remote_address" }).waitFor();
  await reach(page, "button Switch the rule shop.remote_address");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Switch the rule shop.remote_address" }).waitFor();
  assert.equal(await focused(page), "select State");
  await page.keyboard.press("o"); // off: the first state that begins so
  await reach(page, "button Review");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Switch it" }).waitFor();
  assert.equal(await focused(page), "button Switch it");
  await page.keyboard.press("Enter");
  await page.getByRole("row", { name: /remote_address/ }).getByText("off", { exact: true }).waitFor();

  await until("the focus to be back", async () => (await focused(page)) === "button Switch the rule shop.remote_address");

  // Esc leaves a dialog and changes nothing.
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await shot(page, "keys-help");
  await page.keyboard.press("Escape");

  // Events are paused and go on.
  await page.keyboard.press("g");
  await page.keyboard.press("e");
  await page.getByRole("table", { name: "Events, the latest first" }).getByText("tenant:acme").first().waitFor();
  await page.keyboard.press("p");
  await page.getByRole("button", { name: "Resume" }).waitFor();
  await check({ tenant: "late" });
  await page.getByText("1 more since").waitFor();
  assert.equal(await page.getByText("tenant:late").count(), 0);
  await page.keyboard.press("p");
  await page.getByText("tenant:late").waitFor();

  // The theme, by its button; it stays.
  await reach(page, "button Colours: auto. Change", "Shift+Tab");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  assert.equal(await focused(page), "button Colours: dark. Change");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await ground(), "rgb(14, 18, 23)");
  await page.reload();
  await heading(page, "Events");
  assert.equal(await ground(), "rgb(14, 18, 23)");
});
