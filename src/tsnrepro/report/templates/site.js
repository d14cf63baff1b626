"use strict";
// Plots with controls in the colours of the page, and the trials of a value in the list of trials.

const ROWS_SHOWN = 40;
const STEP_PIXELS = 20;
const byId = (id) => document.getElementById(id);
const embedded = (id) => JSON.parse(byId(id).textContent);

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
    for (const layer of spec.layer) layer.encoding.x.title = unit || "value";
    byId("shown").textContent = fitting.length > ROWS_SHOWN
      ? `the first ${ROWS_SHOWN} of ${fitting.length}` : `${fitting.length} values`;
    return show(element, spec);
  };
  byId("unit").addEventListener("change", draw);
  byId("wanted").addEventListener("input", draw);
  return draw;
}

// "#of:key" shows the trials of a value, "#trial" a single trial.
function chosenTrials() {
  const banner = byId("banner"), rows = [...document.querySelectorAll("#trial-table tbody tr")];
  const { keys, sets } = embedded("sets");
  // Keys are a tree of their parts; the set of a key is under the empty part.
  const setOf = (key) => key.split(".").reduce((branch, part) => branch?.[part], keys)?.[""];
  const apply = () => {
    const fragment = decodeURIComponent(location.hash.slice(1));
    const key = fragment.startsWith("of:") ? fragment.slice(3) : null;
    const number = key === null ? undefined : setOf(key);
    const wanted = number !== undefined ? new Set(sets[number].flatMap(([from, to]) =>
      Array.from({ length: to - from + 1 }, (_, index) => from + index))) : null;
    rows.forEach((row, index) => { row.hidden = wanted !== null && !wanted.has(index); });
    banner.hidden = wanted === null;
    banner.replaceChildren();
    if (wanted !== null) {
      const all = Object.assign(document.createElement("a"), { href: "#", textContent: "Show all trials" });
      const name = Object.assign(document.createElement("code"), { textContent: key });
      banner.append(`${wanted.size} trials behind `, name, ". ", all);
    }
  };
  addEventListener("hashchange", apply);
  apply();
}

const drawings = [];
if (byId("trials-plot")) drawings.push(trialsPlot(byId("trials-plot")));
if (byId("intervals-plot")) drawings.push(intervalsPlot(byId("intervals-plot")));
if (byId("trial-table")) chosenTrials();
document.querySelectorAll("form.controls").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
const drawAll = () => drawings.forEach((draw) => draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
