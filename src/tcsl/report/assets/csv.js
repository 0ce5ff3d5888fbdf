// Tables for a spreadsheet. Text that one may take for a formula gets an apostrophe before it, as in `tcsl export --csv`.
const FORMULA = /^(\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])/;

function csvCell(value) {
  if (typeof value === "number") return String(value);
  return `"${(FORMULA.test(value) ? `'${value}` : value).replaceAll('"', '""')}"`;
}

function saveCsv(name, head, rows) {
  const lines = [head.join(","), ...rows.map((row) => row.map(csvCell).join(","))];
  const url = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
