import assert from "node:assert/strict";
import { accessible, check, login, open, play, shot, until } from "./stage.mjs";

const orders = (quota) => `domain: orders
match: path
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: ${quota}}
`;
const tests = "rules: [orders.yaml]\ndomain: orders\ntests:\n  - name: three\n    steps:\n      - {descriptors: ['user:ann'], times: 4, want: {allowed: true}}\n";
const ask = async (user) => (await check({ user }, 1, { domain: "orders" })).allowed;

await play(async (page, context) => {
  await login(page);
  await open(page, "edit");
  await page.getByLabel("A new document").fill("orders.yaml");
  await page.keyboard.press("Enter");
  const text = page.getByLabel("Rules of orders.yaml");
  const review = page.getByRole("region", { name: "Review" });
  const look = page.getByRole("button", { name: "Review", exact: true });
  await text.waitFor();

  // What is wrong is told with its line, and the caret goes there.
  await text.fill(orders(3).replace("hour", "fortnight"));
  await look.click();
  await review.getByText("cannot be in force").waitFor();
  await review.getByRole("button", { name: "Line 5" }).click();
  assert.equal(await text.evaluate((e) => e === document.activeElement && e.value.slice(0, e.selectionStart).split("\n").length), 5);
  assert.equal(await page.getByRole("button", { name: /^Save it/ }).count(), 0);
  await accessible(page, "rules that cannot be");

  // A test that fails is told, too.
  await text.fill(orders(3));
  await page.locator("summary", { hasText: "Tests" }).click();
  await page.getByLabel("Tests of these rules").fill(tests);
  await look.click();
  await review.getByText("1 of 1 failed").waitFor();
  await page.getByLabel("Tests of these rules").fill(tests.replace("times: 4", "times: 3"));
  await look.click();
  await review.getByText("1 passed").waitFor();
  await review.getByRole("table", { name: "What changes for requests" }).getByText("orders.user", { exact: true }).waitFor();
  await accessible(page, "a review");
  await shot(page, "editor-review");

  // Saved, it is in force.
  const save = async (reason) => {
    await review.getByLabel("Reason").fill(reason);
    await review.getByRole("button", { name: "Save it", exact: true }).click();
  };
  const versions = page.getByRole("table", { name: "Versions, the latest first" });
  await save("orders are limited");
  await versions.getByRole("row").filter({ hasText: "orders are limited" }).waitFor();
  await until("the rules to be in force", async () => {
    const user = `probe-${Date.now()}`;
    for (let i = 0; i < 3; i++) await ask(user);
    return !(await ask(user));
  });
  for (let i = 0; i < 3; i++) assert.ok(await ask("bob"));
  assert.ok(!(await ask("bob")));

  // What the requests of the last hour would have been answered.
  await page.getByLabel("Tests of these rules").fill(""); // they are of three orders
  await text.fill(orders(1));
  await look.click();
  await review.locator(".newly").filter({ hasText: /^[1-9]\d* would be newly denied/ }).waitFor();
  await review.getByRole("table", { name: "The effect by rule" }).getByText("orders.user").waitFor();

  // Somebody else is first: nothing of theirs is lost.
  const other = await context.newPage();
  await other.goto(page.url());
  const theirs = other.getByLabel("Rules of orders.yaml");
  await theirs.waitFor();
  await theirs.fill(orders(2));
  await other.getByRole("button", { name: "Review", exact: true }).click();
  const otherReview = other.getByRole("region", { name: "Review" });
  await otherReview.getByLabel("Reason").fill("two are enough");
  await otherReview.getByRole("button", { name: "Save it", exact: true }).click();
  await other.getByRole("table", { name: "Versions, the latest first" }).getByRole("row").filter({ hasText: "two are enough" }).waitFor();
  await other.close();
  await save("one is enough");
  await review.getByText("Changed by somebody else meanwhile.").waitFor();
  await review.getByRole("button", { name: "Review mine against theirs" }).click();
  await review.locator(".diff .before").filter({ hasText: "requests_per_unit: 2}" }).waitFor();
  await save("one is enough");
  await versions.getByRole("row").filter({ hasText: "one is enough" }).waitFor();
  await accessible(page, "versions");

  // Back to what was first.
  await versions.getByRole("row").filter({ hasText: "orders are limited" }).getByRole("button").click();
  await review.locator(".diff .after").filter({ hasText: "requests_per_unit: 3}" }).waitFor();
  await until("the reason to be filled in", async () => (await review.getByLabel("Reason").inputValue()).startsWith("back to version "));
  await review.getByRole("button", { name: "Save it", exact: true }).click();
  await versions.getByRole("row").filter({ hasText: "back to version " }).waitFor();
  assert.equal(await text.inputValue(), orders(3));
  await shot(page, "editor-versions");

  // It is in the log of changes with its reason.
  await open(page, "changes");
  await page.getByRole("table", { name: "Changes, the latest first" }).getByText("two are enough").first().waitFor();
});
