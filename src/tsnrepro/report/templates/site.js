"use strict";
// Plots with controls in the colours of the page; tables that are filtered and sorted.

const ROWS_SHOWN = 40;
const STEP_PIXELS = 20;
const byId = (id) => document.getElementById(id);
const embedded = (id) => JSON.parse(byId(id).textContent);
// A text in the language of the page, with values for its fields.
const texts = embedded("texts");
const say = (text, fields = {}) => (texts[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => fields[name]);

function theme(element) {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  const ink = of("ink"), line = of("line");
  return {
    font: getComputedStyle(element).fontFamily,
    background: of("ground"),
    view: { stroke: line },
    axis: { labelColor: ink, titleColor: ink, gridColor: line, domainColor: of("soft"), tickColor: of("soft"), labelLimit: element.clientWidth / 2 },
    legend: { labelColor: ink, titleColor: ink, orient: "top", titleLimit: 0 },
    range: { category: ["first", "second", "third", "fourth", "fifth", "sixth"].map(of) },
    mark: { color: of("first") },
    point: { size: 45, filled: true, opacity: 0.75 },
    rule: { strokeWidth: 2, color: of("first") },
  };
}

function show(element, spec) {
  return vegaEmbed(element, spec, {
    renderer: "svg", ast: true, actions: false, defaultStyle: false, config: theme(element),
    tooltip: { disableDefaultStyle: true }, loader: { target: "_self" },
  }).then(() => { element.dataset.drawn = String(Number(element.dataset.drawn || 0) + 1); });
}

function trialsPlot(element) {
  const spec = embedded("trials-spec"), columns = embedded("trials-columns");
  spec.data.values = columns.trial.map((_, row) =>
    Object.fromEntries(Object.entries(columns).map(([name, cells]) => [name, cells[row]])));
  const selects = [...document.querySelectorAll("select[data-channel]")];
  const draw = () => {
    for (const select of selects) {
      const channel = spec.encoding[select.dataset.channel];
      const option = select.selectedOptions[0];
      channel.field = option.value;
      channel.type = option.dataset.type;
      channel.title = option.textContent;
      if (select.dataset.channel !== "color") Object.assign(channel, { scale: {}, axis: {} }, JSON.parse(option.dataset.axis));
    }
    // A click in the legend highlights one colour; dragging pans, shift and wheel zoom.
    const { x, y, color } = spec.encoding;
    spec.params = [];
    spec.encoding.opacity = { value: 0.75 };
    if (color.type === "nominal") {
      spec.params.push({ name: "kept", select: { type: "point", fields: [color.field] }, bind: "legend" });
      spec.encoding.opacity = { condition: { param: "kept", value: 0.75 }, value: 0.06 };
    }
    if (x.type === "quantitative" && y.type === "quantitative") {
      spec.params.push({ name: "seen", select: { type: "interval", zoom: "wheel![event.shiftKey]" }, bind: "scales" });
    }
    const fields = selects.map((select) => select.value);
    spec.encoding.tooltip = ["trial", ...new Set(fields)].map((field) => ({ field }));
    return show(element, spec);
  };
  selects.forEach((select) => select.addEventListener("change", draw));
  return draw;
}

function intervalsPlot(element) {
  const spec = embedded("intervals-spec");
  const all = spec.data.values;
  const draw = () => {
    const unit = byId("unit").value, words = byId("wanted").value.toLowerCase().split(/\s+/);
    const fitting = all.filter((row) => row.unit === unit && words.every((word) => row.key.includes(word)));
    spec.data.values = fitting.slice(0, ROWS_SHOWN);
    spec.height = STEP_PIXELS * spec.data.values.length;
    for (const layer of spec.layer) layer.encoding.x.title = unit || say("value");
    byId("shown").textContent = fitting.length > ROWS_SHOWN
      ? say("the first {shown} of {count} values", { shown: ROWS_SHOWN, count: fitting.length })
      : say("{count} values", { count: fitting.length });
    return show(element, spec);
  };
  byId("unit").addEventListener("change", draw);
  byId("wanted").addEventListener("input", draw);
  return draw;
}

// A table of many rows is shown by the page; it is filtered by words and sorted by a column.
function list(table) {
  const body = table.tBodies[0], rows = [...body.rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  let order = rows.map((_, index) => index), only = null, limit = ROWS_SHOWN;
  const tools = Object.assign(document.createElement("form"), { className: "controls" });
  const label = Object.assign(document.createElement("label"), { textContent: say("Rows with ") });
  const words = Object.assign(document.createElement("input"), { type: "search", autocomplete: "off" });
  const count = Object.assign(document.createElement("span"), { className: "soft" });
  const more = Object.assign(document.createElement("button"), { type: "button", textContent: say("Show more") });
  count.setAttribute("role", "status");
  label.append(words);
  tools.append(label, count);
  const draw = () => {
    const wanted = words.value.toLowerCase().split(/\s+/);
    const fitting = order.filter((index) => (only === null || only.has(index)) && wanted.every((word) => texts[index].includes(word)));
    rows.forEach((row) => { row.hidden = true; });
    fitting.slice(0, limit).forEach((index) => { rows[index].hidden = false; });
    body.append(...order.map((index) => rows[index]));
    more.hidden = fitting.length <= limit;
    count.textContent = say(more.hidden ? "{count} rows" : "the first {shown} of {count} rows", { shown: limit, count: fitting.length });
  };
  const cells = (column) => rows.map((row) => row.cells[column]?.textContent.trim() ?? "");
  [...table.tHead.rows].at(-1).querySelectorAll("th").forEach((head, column) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending", found = cells(column);
      const numbers = found.map((text) => (text === "" ? NaN : Number(text.replace("\u2212", "-").replace(",", ""))));
      const numeric = found.every((text, index) => text === "" || !Number.isNaN(numbers[index]));
      const compare = (a, b) => (numeric
        ? (Number.isNaN(numbers[a]) - Number.isNaN(numbers[b])) || (numbers[a] - numbers[b])
        : found[a].localeCompare(found[b], undefined, { numeric: true }));
      order = rows.map((_, index) => index).sort((a, b) => (up ? compare(a, b) : compare(b, a)));
      head.parentElement.querySelectorAll("[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      draw();
    });
  });
  words.addEventListener("input", () => { limit = ROWS_SHOWN; draw(); });
  more.addEventListener("click", () => { limit += 10 * ROWS_SHOWN; draw(); });
  table.parentElement.before(tools);
  table.parentElement.after(more);
  draw();
  return {
    only: (indices) => { only = indices; limit = ROWS_SHOWN; draw(); },
    reveal: (row) => { if (row.hidden) { only = null; words.value = ""; limit = rows.length; draw(); } },
  };
}

// "#of:key" shows the trials of a value, "#trial" a single trial.
function chosenTrials(trials) {
  const banner = byId("banner");
  const { keys, sets } = embedded("sets");
  // Keys are a tree of their parts; the set of a key is under the empty part.
  const setOf = (key) => key.split(".").reduce((branch, part) => branch?.[part], keys)?.[""];
  const apply = () => {
    const fragment = decodeURIComponent(location.hash.slice(1));
    const key = fragment.startsWith("of:") ? fragment.slice(3) : null;
    const number = key === null ? undefined : setOf(key);
    const wanted = number !== undefined ? new Set(sets[number].flatMap(([from, to]) =>
      Array.from({ length: to - from + 1 }, (_, index) => from + index))) : null;
    trials.only(wanted);
    banner.hidden = wanted === null;
    banner.replaceChildren();
    if (wanted !== null) {
      const all = Object.assign(document.createElement("a"), { href: "#", textContent: say("Show all trials") });
      const name = Object.assign(document.createElement("code"), { textContent: key });
      banner.append(say("{count} trials behind ", { count: wanted.size }), name, ". ", all);
    }
  };
  addEventListener("hashchange", apply);
  apply();
}

// What a link leads to may be folded, or beyond the rows shown.
function showTarget() {
  const target = byId(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let parent = target; parent; parent = parent.parentElement) if (parent.tagName === "DETAILS") parent.open = true;
  lists.get(target.closest("table"))?.reveal(target);
  target.scrollIntoView();
}

const lists = new Map([...document.querySelectorAll("table.list")].map((table) => [table, list(table)]));
const drawings = [];
if (byId("trials-plot")) drawings.push([byId("trials-plot"), trialsPlot(byId("trials-plot"))]);
if (byId("intervals-plot")) drawings.push([byId("intervals-plot"), intervalsPlot(byId("intervals-plot"))]);
if (byId("trial-table")) chosenTrials(lists.get(byId("trial-table")));
document.querySelectorAll("form.controls").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
// What is folded has no width yet.
const folded = (element) => element.closest("details:not([open])");
const drawAll = (chosen = drawings) => chosen.forEach(([element, draw]) => { if (!folded(element)) draw(); });
document.querySelectorAll("main details").forEach((part) => part.addEventListener("toggle", () =>
  drawAll(drawings.filter(([element]) => part.contains(element) && !element.dataset.drawn))));
addEventListener("hashchange", showTarget);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
drawAll();
showTarget();
