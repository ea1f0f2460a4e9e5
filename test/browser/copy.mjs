import assert from "node:assert/strict";
import { accessible, check, heading, login, open, play, shot, stage } from "./stage.mjs";

for (let i = 0; i < 5; i++) await check({ tenant: "acme" });

const events = (page) => page.getByRole("table", { name: "Events, the latest first" });

async function copies(page, pasted) {
  // A key, from the keyboard; the word that says so is read aloud.
  await open(page, "keys");
  const copy = page.getByRole("button", { name: "Copy the key tenant:acme" });
  await copy.waitFor();
  await copy.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("Copied: the key tenant:acme.").waitFor();
  assert.equal(await pasted(), "tenant:acme");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Copy the key tenant:acme", "the focus stays");

  // An event: its id, and the version of the configuration that is shown cut off.
  await open(page, "events?outcome=denied");
  await events(page).getByRole("rowheader").first().getByRole("link").click();
  await heading(page, "Event");
  await page.getByRole("button", { name: "Copy the id of the event" }).click();
  await page.getByRole("status").getByText("Copied: the id of the event.").waitFor();
  assert.equal(await pasted(), decodeURIComponent(page.url().split("/").at(-1)));
  await page.getByRole("button", { name: "Copy the version of the configuration" }).click();
  await page.getByRole("status").getByText("Copied: the version of the configuration.").waitFor();
  assert.ok((await pasted()).length > 12);
  await accessible(page, "an event with what copies it");
  await shot(page, "copy-event");

  // An explanation as text and as JSON, whole.
  await open(page, "explain?domain=shop&d=tenant:acme");
  await page.getByText("As text").click();
  await page.getByRole("button", { name: "Copy the explanation as text" }).click();
  await page.getByRole("status").getByText("Copied: the explanation as text.").waitFor();
  assert.equal(await pasted(), await page.locator("details", { hasText: "As text" }).locator("pre").textContent());
  await page.getByText("As JSON").click();
  await page.getByRole("button", { name: "Copy the explanation as JSON" }).click();
  await page.getByRole("status").getByText("Copied: the explanation as JSON.").waitFor();
  assert.equal(JSON.parse(await pasted()).domain, "shop");
  await accessible(page, "an explanation with what copies it");

  // The name of an account, the id of a rule, and what a candidate changes.
  await open(page, "tenants/tenant:acme");
  await page.getByRole("button", { name: "Copy the name of the account" }).click();
  await page.getByRole("status").getByText("Copied: the name of the account.").waitFor();
  assert.equal(await pasted(), "tenant:acme");
  await open(page, "rules/shop.plan");
  await page.getByRole("button", { name: "Copy the id of the rule" }).click();
  await page.getByRole("status").getByText("Copied: the id of the rule.").waitFor();
  assert.equal(await pasted(), "shop.plan");
  await page.getByRole("button", { name: "Copy what the candidate of shop.plan changes" }).click();
  await page.getByRole("status").getByText("Copied: what the candidate of shop.plan changes.").waitFor();
  assert.match(await pasted(), /^shop\.plan\n- 5 per 1h[^\n]*\n\+ 4 per 1h[^\n]*\n$/);
}

await check({ plan: "pro" });

// By the clipboard of the browser.
await play(async (page, context) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: stage.base });
  await login(page);
  await copies(page, () => page.evaluate(() => navigator.clipboard.readText()));
});

// Without one, as on a page that came without TLS from another machine, and with one that refuses:
// as by hand. What was copied is found by pasting it.
for (const clipboard of ["undefined", "{ writeText: () => Promise.reject(new DOMException('no', 'NotAllowedError')) }"]) {
  await play(async (page, context) => {
    await context.addInitScript(`Object.defineProperty(Navigator.prototype, "clipboard", { get: () => ${clipboard} })`);
    await login(page);
    await copies(page, async () => {
      await page.evaluate(() => {
        const area = document.createElement("textarea");
        area.id = "pasted";
        globalThis.had = document.activeElement;
        document.body.append(area);
        area.focus();
      });
      await page.keyboard.press("Control+V");
      return page.evaluate(() => {
        const area = document.querySelector("#pasted");
        area.remove();
        globalThis.had.focus();
        return area.value;
      });
    });
  });
}

// Where neither works, that is said.
await play(async (page, context) => {
  await context.addInitScript(() => {
    Object.defineProperty(Navigator.prototype, "clipboard", { get: () => undefined });
    document.execCommand = () => false;
  });
  await login(page);
  await open(page, "tenants/tenant:acme");
  await page.getByRole("button", { name: "Copy the name of the account" }).click();
  await page.getByRole("status").getByText(/does not let the page copy the name of the account; hint: select it/).waitFor();
  assert.equal(await page.locator("textarea").count(), 0);
});
