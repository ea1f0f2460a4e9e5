import assert from "node:assert/strict";
import { accessible, check, control, heading, login, open, play, shot, until } from "./stage.mjs";
import { untidy } from "./tour.mjs";

// Prometheus tells of what goes on while it looks.
const traffic = setInterval(() => check({ tenant: "acme" }).catch(() => {}), 100);

await play(async (page) => {
  await login(page);
  await open(page, "history");
  await heading(page, "History");
  const range = page.getByRole("group", { name: "Range" });
  const press = (name) => range.getByRole("button", { name, exact: true }).click();
  const pressed = (name) => range.locator("button[aria-pressed=true]", { hasText: name }).waitFor();
  const whose = page.locator(".whose");
  const alert = page.getByRole("alert");
  const drawn = page.getByRole("img", { name: /^Requests per second, from .*denied: [^;]*at most (?:0\.\d|[1-9<])/ });
  const nodes = page.getByText("The sum of 2 nodes: gate-1, gate-2.", { exact: true });
  await nodes.waitFor();

  // It has to look twice before it knows how many a second there were; until then it says why it knows nothing.
  for (const [name, steps, length] of [["30 d", "58 min", 30], ["90 d", "2.9 h", 90]]) {
    const told = whose.getByText("From Prometheus: the sum of all nodes that it scrapes.");
    await until(`denials in ${name}`, async () => {
      await press(name);
      await pressed(name);
      await told.or(alert.getByText("Prometheus has no headgate_requests_total")).waitFor();
      return (await told.isVisible()) && (await drawn.count()) === 1;
    });
    await range.getByText(new RegExp(`to now, in steps of ${steps}$`)).waitFor();
    assert.match(page.url(), new RegExp(`range=${length}\\+d$`));
    // The whole range is drawn, though only its end is known.
    const [, from, to] = /from (.*) to (.*?)\. /.exec(await drawn.first().getAttribute("aria-label"));
    const days = (Date.parse(to.replace(" at", "")) - Date.parse(from.replace(" at", ""))) / 86400e3;
    assert.ok(Math.abs(days - length) < 0.2, `${days} days are drawn: from ${from} to ${to}`);
    assert.deepEqual(await page.evaluate(untidy), [], `history of ${name}: untidy`);
    const numbers = await page.locator(".plot").first().locator("text[text-anchor=end]").allTextContents();
    assert.equal(new Set(numbers).size, numbers.length, `numbers of the axis: ${numbers}`);
    await accessible(page, `history of ${name}`);
    await shot(page, `prometheus-${length}-days`);
  }

  // A point says its day, and all charts mark it.
  const frame = page.locator(".chart .frame").first();
  const box = await frame.boundingBox();
  await page.mouse.move(box.x + box.width - 10, box.y + 60);
  const tips = page.locator(".chart .tip:not([hidden])");
  await tips.nth(2).waitFor();
  assert.match(await tips.first().locator(".num").first().textContent(), /^\d+ \w+ \d{4}, \d\d:\d\d$/);

  // One node: that of the label instance, and one that Prometheus does not look at.
  const picker = page.getByLabel("Shown nodes");
  await picker.selectOption("gate-1");
  await whose.getByText("From Prometheus: of the node whose label instance is gate-1.").waitFor();
  await drawn.first().waitFor();
  await picker.selectOption("gate-2");
  await alert.getByText(/has no headgate_requests_total\{instance=~"gate-2/).waitFor();
  // What stood there before it has failed is of another node.
  assert.equal(await whose.textContent(), "");
  assert.equal(await range.getByText("in steps of").count(), 0);
  await picker.selectOption("");
  await whose.getByText("From Prometheus: the sum").waitFor();
  await drawn.first().waitFor();

  // It goes away: that is said, with what to do; the nodes tell what they know as before.
  await control("prometheus/kill");
  await press("30 d");
  await alert.getByText("Prometheus does not answer").waitFor();
  await alert.getByText("Hint: is it running").waitFor();
  await accessible(page, "history without Prometheus");
  await shot(page, "prometheus-away");
  await press("1 h");
  await nodes.waitFor();
  await drawn.first().waitFor();
  await alert.waitFor({ state: "detached" });
}).finally(() => clearInterval(traffic));
