// What all scripts share: the stage that the Go side has set, and a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

export const stage = JSON.parse(process.env.STAGE);
const require = createRequire(path.join(stage.modules, "here.js"));
const { chromium, firefox } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const patience = 90000; // of a busy machine
export const pages = ["overview", "keys", "rules", "edit", "tenants", "explain", "events", "history", "fleet", "switches", "changes", "settings", "accuracy", "regions", "dual-run"];

// check sends a request to be decided, from outside of the browser.
export async function check(entries, hits = 1, { domain = "shop", node = "" } = {}) {
  const body = { domain, descriptors: [{ entries: Object.entries(entries).map(([key, value]) => ({ key, value })), hits }] };
  const answer = await fetch(`${stage.control}/check?node=${node}`, { method: "POST", body: JSON.stringify(body) });
  assert.ok(answer.ok, `control: ${answer.status}`);
  return answer.json();
}

export async function control(what) {
  assert.ok((await fetch(`${stage.control}/${what}`, { method: "POST" })).ok);
}

// metrics are the samples of /metrics of a node, summed up by name and outcome.
export async function metrics(node = "") {
  const text = await (await fetch(`${stage.control}/metrics?node=${node}`)).text();
  const sums = new Map();
  for (const [, name, labels, value] of text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)) {
    const of = (label) => new RegExp(`(?:^|,)${label}="([^"]*)"`).exec(labels ?? "")?.[1] ?? "";
    const key = [name, of("rule"), of("outcome")].join(" ");
    sums.set(key, (sums.get(key) ?? 0) + Number(value));
  }
  return sums;
}

// until waits for a condition that is not one of a page.
export async function until(what, holds) {
  const end = Date.now() + patience;
  for (;;) {
    if (await holds()) return;
    assert.ok(Date.now() < end, `waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

// play opens a browser for a script. Whatever the script does, no page may run what it
// should not, ask another host, or fail by itself.
export async function play(script, options = {}) {
  const browser = await launch(options);
  const faults = [];
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, locale: "en-GB", timezoneId: "Europe/Berlin", ...options });
    context.setDefaultTimeout(patience);
    await context.addInitScript(() => {
      globalThis.violations = [];
      addEventListener("securitypolicyviolation", (event) => globalThis.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
    });
    context.on("request", (request) => {
      const asked = new URL(request.url());
      if (asked.protocol !== "data:" && asked.origin !== stage.base && asked.origin !== stage.issuer) faults.push(`asked ${request.url()}`);
    });
    const page = await context.newPage();
    page.on("pageerror", (error) => faults.push(`error in the page: ${error.stack}`));
    page.on("console", (message) => {
      // A browser tells of every answer that is an error; which of them may be is said by
      // the scripts.
      if (["error", "warning"].includes(message.type()) && !message.text().startsWith("Failed to load resource")) faults.push(`console: ${message.text()}`);
    });
    try {
      await script(page, context);
    } catch (error) {
      if (stage.shots) await page.screenshot({ path: path.join(stage.shots, "failed.png"), fullPage: true }).catch(() => {});
      throw error;
    }
    faults.push(...(await page.evaluate(() => globalThis.violations)).map((v) => `content security policy: ${v}`));
    assert.deepEqual(faults, []);
  } finally {
    if (faults.length) console.log(faults.join("\n"));
    await browser.close();
  }
}

// launch starts the browser that the stage names. Firefox is spoken to by WebDriver BiDi, as it
// comes: it takes what people prefer as settings of its own, and not of a page.
const launch = (options) =>
  stage.firefox
    ? firefox.launch({ channel: "moz-firefox", executablePath: stage.firefox, firefoxUserPrefs: { "ui.systemUsesDarkTheme": options.colorScheme === "dark" ? 1 : 0, "ui.prefersReducedMotion": options.reducedMotion ? 1 : 0 } })
    : chromium.launch({ executablePath: stage.chromium, args: ["--no-sandbox", "--disable-dev-shm-usage"] });

export async function login(page, scope = "admin") {
  await page.goto(stage.base);
  await page.getByLabel("Token").fill(stage.tokens[scope]);
  await page.getByRole("button", { name: "Log in" }).click();
  await heading(page, "Overview");
  await page.getByText("Live", { exact: true }).waitFor();
}

export const heading = (page, name) => page.getByRole("heading", { level: 1, name, exact: true }).waitFor();

// open goes to a page by its address.
export async function open(page, hash) {
  await page.evaluate((to) => (location.hash = to), `#/${hash}`);
  await page.locator("main h1").waitFor();
}

// shot keeps a screenshot of the whole page where the stage has a place for it, but not of Firefox:
// there the driver puts a style into the page, which no page of ours allows.
export async function shot(page, name) {
  if (stage.shots && !stage.firefox) await page.screenshot({ path: path.join(stage.shots, `${name}.png`), fullPage: true });
}

// accessible finds faults of a page by axe-core, at the levels A and AA and by its best
// practices.
export async function accessible(page, name) {
  await page.evaluate(axe);
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"], preload: false }));
  const list = violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target.join(" ")}: ${n.failureSummary.split("\n").slice(1).join("; ")}`));
  assert.deepEqual(list, [], `${name}: faults of accessibility`);
  assert.ok(passes.length > 10, `${name}: only ${passes.length} rules of axe-core apply`);
  return passes.length;
}
