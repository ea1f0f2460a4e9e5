// Tables as files for spreadsheets (RFC 4180).

// A cell that begins so would be a formula to a spreadsheet, whoever has written it.
const formula = /^[=+\-@\t\r]/;

const cell = (value) => {
  let text = String(value ?? "");
  if (typeof value !== "number" && formula.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

// csv is rows under their names as one text.
export const csv = (names, rows) => [names, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");

// save gives a table to the browser to keep, under a name with the time.
export function save(what, names, rows) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv(names, rows)], { type: "text/csv" }));
  link.download = `headgate-${what}-${new Date().toISOString().replace(/[:.]/g, "-")}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
