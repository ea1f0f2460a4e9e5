import assert from "node:assert/strict";
import { check, login, open, play, shot, until } from "./stage.mjs";

const names = [
  `<img src=x onerror="globalThis.ran=1">`,
  `<script>globalThis.ran=2</script>`,
  `"><svg onload=globalThis.ran=3>`,
  `javascript:globalThis.ran=4`,
  `#/../../x?y=<b>&'"\\,:`,
  `</td></tr></table><iframe srcdoc="<script>parent.ran=5</script>">`,
  "\u202egnp.exe\u0000\u0007",
  `\${globalThis.ran=6}{{7*7}}`,
  "a".repeat(5000),
];

for (const tenant of names) for (let i = 0; i < 5; i++) await check({ tenant });
await check({ [names[0]]: names[1] });

await play(async (page, context) => {
  const asked = [];
  context.on("request", (request) => asked.push(new URL(request.url()).pathname));
  const inert = async (where) => {
    assert.equal(await page.evaluate(() => globalThis.ran), undefined, `${where}: something ran`);
    assert.deepEqual(await page.evaluate(() => globalThis.violations), [], `${where}: something was tried`);
    assert.equal(await page.locator("img, iframe, script:not([src]), object, embed, main svg[onload]").count(), 0, `${where}: an element was made of text`);
    for (const link of await page.locator("a[href]").evaluateAll((all) => all.map((a) => a.getAttribute("href")))) assert.match(link, /^#/, `${where}: a link leads to ${link}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${where}: ${wide} px too wide`);
  };
  await login(page);
  await page.getByRole("table", { name: "Keys with the most denials" }).getByText("tenant:").first().waitFor();
  await inert("overview");
  for (const by of ["denied", "total"]) {
    await open(page, `keys?by=${by}`);
    await page.getByText(`tenant:${names[0]}`, { exact: true }).waitFor();
    await inert("keys");
  }
  await shot(page, "hostile-keys");
  await open(page, "events");
  await page.getByText(`tenant:${names[2]}`).first().waitFor();
  await inert("events");
  await page.getByRole("row").nth(5).getByRole("link").first().click();
  await page.getByText("One decision").waitFor();
  await inert("event");

  // The links of every key lead to what they say, whatever is in the key.
  for (const tenant of names.slice(0, 6)) {
    await open(page, "keys");
    await page.getByRole("row").filter({ has: page.locator(`code[title=${JSON.stringify(`tenant:${tenant.replace(/[\\,]/g, "\\$&")}`)}]`) }).getByRole("link", { name: /^Explain/ }).click();
    await page.getByText("It would be denied.").waitFor();
    await inert(`explain ${tenant}`);
    await page.goBack();
    await page.getByRole("row").filter({ has: page.locator(`code[title=${JSON.stringify(`tenant:${tenant.replace(/[\\,]/g, "\\$&")}`)}]`) }).getByRole("link", { name: /^Tenant/ }).click();
    await page.getByRole("heading", { level: 1, name: `tenant:${tenant}`, exact: true }).waitFor();
    await page.getByRole("table", { name: "Usage" }).or(page.getByRole("alert")).first().waitFor();
    await inert(`tenant ${tenant}`);
  }
  for (const hash of ["rules/%3Cimg%20src=x%20onerror=globalThis.ran=8%3E", "tenants/%3Cscript%3EglobalThis.ran=9%3C%2Fscript%3E", "events/%3Cb%3E", "explain?domain=%3Cb%3E&d=a:%3Cimg%20src=x%3E", "%3Cimg%3E", "tenants/%E0%A4%A", "keys?rule=%3Cimg%20src=x%3E"]) {
    await open(page, hash);
    await until(`${hash} to be shown`, async () => (await page.locator(".page .spinner").count()) === 0);
    await inert(hash);
  }
  const wrong = asked.filter((path) => path !== "/" && !/^\/(api|assets)\/|^\/log(in|out|in\/ways)$/.test(path));
  assert.deepEqual(wrong, [], "something of a key was asked for");
  console.log(`${names.length} hostile names on every page: nothing ran, nothing was asked for`);
});
