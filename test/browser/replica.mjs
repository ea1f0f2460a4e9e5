import { accessible, control, login, open, play, shot } from "./stage.mjs";

await play(async (page) => {
  await login(page);
  await open(page, "overview");
  const row = page.getByRole("table", { name: "Configuration in force" }).getByRole("row", { name: /^Replica/ });
  await row.getByText("replica follows").waitFor();
  await control("replica/lag");
  await row.getByText("replay paused").waitFor();
  await row.getByText(/behind at most; .* not replayed yet/).waitFor();
  await accessible(page, "the overview with a replica that lags");
  await shot(page, "replica-overview");
  await open(page, "fleet");
  const node = page.getByRole("table", { name: "Nodes" }).getByRole("row", { name: /^gate-1/ });
  await node.getByText("replay paused").waitFor();
  await node.getByText(/behind at most/).waitFor();
  await shot(page, "replica-fleet");
  await control("replica/kill");
  await node.getByText("replica away").waitFor();
  await node.getByText(/behind at most/).waitFor();
});
