import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { accessible, heading, login, open, play, shot } from "./stage.mjs";

await play(async (page) => {
  await login(page);
  await open(page, "settings");
  await heading(page, "Settings");
  const row = (name) => page.getByRole("row").filter({ has: page.getByRole("rowheader", { name, exact: true }) });
  const has = async (name, ...cells) => {
    await row(name).waitFor(); // the node has answered
    assert.deepEqual(await row(name).getByRole("cell").allTextContents(), cells, name);
  };

  // Each setting with its value and where it comes from; a password is shown by none.
  await has("node-name", "gate-1", "command line", "–");
  await has("store-budget", "7s", "file", "20ms");
  await has("log-level", "warn", "environment: HEADGATE_LOG_LEVEL", "info");
  await has("grpc-transport", "h2", "default", "h2");
  assert.match(await row("store").textContent(), /redis:\/\/:?xxxxx@|redis:\/\/[^@]*xxxxx@/);
  assert.doesNotMatch(await page.locator("main").innerText(), /not-a-real-secret/);
  await accessible(page, "settings");
  await shot(page, "settings");

  // The filter finds names and values, stays in the address, and says so when there is nothing.
  await page.keyboard.press("/");
  await page.keyboard.type("gate-1");
  await row("store-budget").waitFor({ state: "detached" });
  assert.equal(await page.getByRole("rowheader").count(), 1);
  assert.match(page.url(), /#\/settings\?find=gate-1$/);
  await page.getByLabel("Find").fill("no such thing");
  await page.getByText("No such setting.").waitFor();
  await page.getByLabel("Find").fill("");
  await page.getByLabel("From").selectOption("given");
  await row("grpc-transport").waitFor({ state: "detached" });
  await row("log-level").waitFor();
  await page.reload();
  await row("log-level").waitFor();
  assert.equal(await row("grpc-transport").count(), 0);

  // What is shown is what the file has.
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export as CSV" }).click()]);
  const text = await readFile(await file.path(), "utf8");
  assert.match(text, /^name,value,from,variables,default\r\n/);
  assert.match(text, /\r\nlog-level,warn,environment,HEADGATE_LOG_LEVEL,info\r\n/);
  assert.doesNotMatch(text, /not-a-real-secret|grpc-transport/);
}, { acceptDownloads: true });

// Who may not switch everything sees no setting.
await play(async (page) => {
  await login(page, "write");
  await open(page, "settings");
  await page.getByText("This page is for the scope admin; yours is write.").waitFor();
  assert.equal(await page.getByRole("link", { name: "Settings" }).count(), 0);
  assert.equal(await page.getByRole("table").count(), 0);
});
