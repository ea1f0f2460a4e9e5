import { heading, login, open, play } from "./stage.mjs";

await play(async (page) => {
  await login(page);

  // What is typed is looked for a moment later. Where that is just when somebody leaves, the page
  // that they go to is shown all the same: its address is not overwritten by the one they leave.
  // leave types into a field and has go leave the page, and the moment pass between that and the new page.
  const leave = (label, go) => page.getByLabel(label, { exact: true }).evaluate((field, go) => {
    const due = [];
    const soon = window.setTimeout;
    window.setTimeout = (f) => due.push(f);
    field.value = "acme";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    window.setTimeout = soon;
    if (!due.length) throw new Error("nothing is looked for later");
    if (go) location.hash = go;
    else field.form.requestSubmit();
    due.forEach((f) => f());
  }, go);
  await open(page, "tenants");
  await heading(page, "Tenants");
  await leave("Name or prefix");
  await heading(page, "tenant:acme");
  await open(page, "events");
  await heading(page, "Events");
  await leave("Key", "#/rules");
  await heading(page, "Rules");
});
