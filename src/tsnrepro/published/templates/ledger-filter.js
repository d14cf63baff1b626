"use strict";
// Shows the claims with the selected verdicts and document that contain all words.
const form = document.getElementById("filter");
const rows = [...document.querySelectorAll("tr[data-verdict]")];
const apply = () => {
  const { verdict, record, document: source, words } = form.elements;
  const wanted = words.value.toLowerCase().split(/\s+/);
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = (verdict.value && row.dataset.verdict !== verdict.value)
      || (record && record.value && row.dataset.record !== record.value)
      || (source.value && row.dataset.document !== source.value)
      || !wanted.every((word) => text.includes(word));
  }
  for (const part of document.querySelectorAll("div[data-claims]"))
    part.hidden = !part.querySelector("tr[data-verdict]:not([hidden])");
  document.getElementById("shown").textContent =
    `${rows.filter((row) => !row.hidden).length} of ${rows.length} claims`;
};
form.hidden = false;
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", apply);
form.addEventListener("reset", () => setTimeout(apply));
apply();
