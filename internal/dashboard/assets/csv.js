// Tables as files for spreadsheets (RFC 4180).

import { h } from "./dom.js";
import { notice } from "./parts.js";

// A cell that begins so would be a formula to a spreadsheet, whoever has written it; some
// take the wide forms of the letters, too, and look beyond spaces.
const formula = /^\s*[=+\-@＝＋－＠]|^[\t\r\n]/;

const cell = (value) => {
  let text = String(value ?? "");
  if (typeof value !== "number" && formula.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// csv is rows under their names as one text.
export const csv = (names, rows) => [names, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");

// save gives a table to the browser to keep, under a name with the time.
function save(what, { names, rows }) {
  const link = h("a");
  link.href = URL.createObjectURL(new Blob([csv(names, rows)], { type: "text/csv" }));
  link.download = `headgate-${what}-${new Date().toISOString().replace(/[:.]/g, "-")}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// exportButton saves the table {names, rows} that of() returns, or promises, when it is
// pressed.
export function exportButton(what, of) {
  let busy = false;
  return h("button", { type: "button", onclick: async () => {
    if (busy) return;
    busy = true;
    try {
      save(what, await of());
    } catch (problem) {
      notice(problem.message, "denied");
    } finally {
      busy = false;
    }
  } }, "Export as CSV");
}
