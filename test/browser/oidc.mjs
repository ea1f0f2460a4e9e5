import assert from "node:assert/strict";
import { accessible, heading, open, play, shot, stage, until } from "./stage.mjs";

const comeBack = `${stage.base}/login/oidc/callback`;
const answers = []; // addresses that the issuer has sent the browser back to

const link = (page) => page.getByRole("link", { name: `Log in with ${new URL(stage.issuer).host}` });
const says = (page, words) => page.getByRole("alert").getByText(words).waitFor();

// person logs in at the issuer, and agrees.
async function person(page, name) {
  await link(page).click();
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Agree", exact: true }).click();
}

// clean says that nothing of an answer is left in the address of the page.
const clean = (page) => assert.equal(new URL(page.url()).pathname + new URL(page.url()).search, "/");

for (const [name, options] of [["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }], ["small", { viewport: { width: 360, height: 740 } }]]) {
  await play(async (page) => {
    await page.goto(stage.base);
    await link(page).waitFor();
    await accessible(page, `login by an issuer, ${name}`);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `${name}: too wide`);
    await shot(page, `${name}-login-by-issuer`);
  }, options);
}

await play(async (page, context) => {
  context.on("request", (request) => {
    if (request.url().startsWith(comeBack)) answers.push(request.url());
  });
  await page.goto(`${stage.base}/#/tenants`);

  // Who does not agree is told so.
  await link(page).click();
  await page.getByRole("button", { name: "Do not agree" }).click();
  await says(page, /you have not agreed to it \(access_denied/);
  clean(page);
  await accessible(page, "login that was denied");

  // Who has no scope is told why.
  await person(page, "bob");
  await says(page, /the admin API does not let you in: oidc:bob@example\.com has the scope none/);
  clean(page);
  await context.clearCookies();

  // Who has one sees the page that was asked for, and changes something under the own name.
  await page.reload();
  await person(page, "ann");
  await heading(page, "Tenants");
  clean(page);
  await page.getByText("oidc:ann@example.com", { exact: true }).waitFor();
  const cookies = (await context.cookies(stage.base)).filter((c) => c.name.startsWith("headgate"));
  assert.deepEqual(cookies.map((c) => [c.name.replace(/_\d+$/, ""), c.httpOnly, c.sameSite]), [["headgate_session", true, "Strict"]]);
  const status = await page.evaluate(async () => (await fetch("/api/quotas/tenant:acme", { method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ tier: "pro" }) })).status);
  assert.equal(status, 201);
  await open(page, "changes");
  await page.getByRole("cell", { name: "oidc:ann@example.com" }).first().waitFor();
  await shot(page, "changes-by-issuer");

  // The issuer renews the token, and the session goes on.
  await until("a token that is renewed", async () => {
    assert.equal(await page.evaluate(async () => (await fetch("/api/me")).status), 200);
    return Number(await (await fetch(`${stage.issuer}/renewed`)).text()) > 0;
  });
  assert.equal(await page.evaluate(async () => (await fetch("/api/me")).status), 200);

  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByText("You are logged out.").waitFor();
  assert.equal(await page.evaluate(async () => (await fetch("/api/me")).status), 401);

  // What the browser has come back with is good for nothing now, here and elsewhere.
  const last = answers.at(-1);
  assert.match(last, /code=/);
  await page.goto(last);
  await says(page, /that this browser has not begun here/);
  clean(page);
});

await play(async (page) => {
  await page.goto(answers.at(-1));
  await says(page, /that this browser has not begun here/);
  await link(page).waitFor();
});
