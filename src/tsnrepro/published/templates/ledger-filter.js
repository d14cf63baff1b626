"use strict";
// Shows the claims with the selected verdicts and document that contain all words, a few of each document first.
const ROWS_SHOWN = 12;
const form = document.getElementById("filter");
const rows = [...document.querySelectorAll("tr[data-verdict]")];
const parts = [...document.querySelectorAll("details[data-claims]")];
const whole = new Set();
const apply = () => {
  const { verdict, record, document: source, words } = form.elements;
  const wanted = words.value.toLowerCase().split(/\s+/);
  const fits = (row) => (!verdict.value || row.dataset.verdict === verdict.value)
    && (!record || !record.value || row.dataset.record === record.value)
    && (!source.value || row.dataset.document === source.value)
    && wanted.every((word) => row.textContent.toLowerCase().includes(word));
  const filtered = [...form.elements].some((element) => element.value);
  let count = 0;
  for (const part of parts) {
    const own = rows.filter((row) => part.contains(row)), fitting = own.filter(fits);
    const shown = new Set(whole.has(part) ? fitting : fitting.slice(0, ROWS_SHOWN));
    own.forEach((row) => { row.hidden = !shown.has(row); });
    part.hidden = !fitting.length;
    if (filtered) part.open = true;
    part.querySelector(".more").hidden = shown.size === fitting.length;
    count += fitting.length;
  }
  document.getElementById("shown").textContent =
    form.dataset.shown.replace("{count}", count).replace("{total}", rows.length);
};
// What a link leads to is folded, and may be beyond the rows shown.
const showTarget = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) {
    part.open = true;
    whole.add(part);
  }
  apply();
  target.scrollIntoView();
};
form.hidden = false;
for (const part of parts)
  part.querySelector(".more").addEventListener("click", () => { whole.add(part); apply(); });
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("input", apply);
form.addEventListener("reset", () => setTimeout(apply));
addEventListener("hashchange", showTarget);
apply();
showTarget();
