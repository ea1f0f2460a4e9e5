import { control, login, open, play, shot } from "./stage.mjs";

await play(async (page) => {
  await login(page);
  await open(page, "overview");
  await control("kill");
  await page.getByText(/^Stale since \d\d:\d\d:\d\d; trying again in/).waitFor();
  await shot(page, "away-stale");
  await open(page, "fleet");
  await page.getByText("Headgate does not answer").waitFor();
  await page.getByRole("button", { name: "Try again" }).waitFor();
  await control("start");
  await page.getByText("Your login has ended.").waitFor();
  await shot(page, "away-back");
});
