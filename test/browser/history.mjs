import assert from "node:assert/strict";
import { accessible, check, heading, login, open, play, shot } from "./stage.mjs";

for (let i = 0; i < 6; i++) await check({ tenant: "acme" });

await play(async (page) => {
  await login(page);
  await open(page, "history");
  await heading(page, "History");

  // What was answered is there, by the second, and in the words of each chart.
  const plot = page.getByRole("img", { name: /^Requests per second, from .* to .*allowed: [^;]*at most (?:0\.\d|[1-9<])/ });
  await plot.waitFor();
  await page.getByRole("img", { name: /^Denied requests as a share of the traffic, from .*at most [1-9]/ }).waitFor();
  const range = page.getByRole("group", { name: "Range" });
  await range.getByText(/to now, in steps of/).waitFor();
  await accessible(page, "history");
  await shot(page, "history");

  // Another range is asked for, and stands in the address.
  await range.getByRole("button", { name: "7 d" }).click();
  await page.locator(".filters button[aria-pressed=true]", { hasText: "7 d" }).waitFor();
  assert.match(page.url(), /range=7\+d$/);
  await range.getByText(/in steps of 15 min$/).waitFor();
  await range.getByRole("button", { name: "1 h" }).click();
  await range.getByText(/in steps of 5\.0 s$/).waitFor();

  // What is drawn out is looked at closer, and the way back is there.
  const frame = page.locator(".chart .frame").first();
  const box = await frame.boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width - 12, box.y + 60);
  // A point that is pointed at is marked in all charts.
  assert.equal(await page.locator(".chart .tip:not([hidden])").count(), 3);
  await page.mouse.up();
  const back = range.getByRole("button", { name: "Whole range" });
  await back.waitFor();
  await range.getByText(/ to \d+ \w+ \d{4}, .*in steps of/).waitFor(); // once the node has answered
  await back.click();
  await back.waitFor({ state: "hidden" });
  await range.getByText(/to now/).waitFor();

  // A click leads to what was not allowed then.
  const now = await frame.boundingBox();
  await page.mouse.click(now.x + now.width - 10, now.y + 60);
  await heading(page, "Events");
  assert.match(page.url(), /outcome=over/);
  // The time that is shown stands in fields, exactly, and can be left again.
  const [, from, to] = /since=(\d+)&until=(\d+)/.exec(page.url());
  const field = (name) => page.getByLabel(name, { exact: true });
  const shown = (name) => field(name).evaluate((input) => new Date(input.value).getTime());
  assert.deepEqual([await shown("Since"), await shown("Until")], [Number(from), Number(to)]);
  await accessible(page, "events of a time");
  await shot(page, "events-of-a-time");
  const anytime = page.getByRole("button", { name: "Any time" });
  await anytime.click();
  await anytime.waitFor({ state: "hidden" });
  assert.equal(await field("Since").inputValue(), "");
  assert.doesNotMatch(page.url(), /since|until/);
  assert.match(page.url(), /outcome=over/);

  // A time that somebody writes filters: before the first denial there was none.
  const denied = page.getByRole("table", { name: "Events, the latest first" }).getByRole("row", { name: /denied/ });
  await denied.first().waitFor();
  await field("Until").fill("2020-01-01T00:00");
  await page.getByText("No such decision is remembered.").waitFor();
  assert.match(page.url(), /until=1577833200000&/, "the time of Berlin");
  assert.equal(await denied.count(), 0);
});
