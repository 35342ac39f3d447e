// The verdict matrix: a row per lock, a column per property, all faults together or one of them.

const chosen = { name: "", groups: new Set(data.groups.keys()), fault: null, verdict: "" };

function isShown(subject) {
  const { name, groups, verdict } = chosen;
  if (!groups.has(subject.group)) return false;
  const words = name.toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${subject.name} ${subject.summary || ""} ${subject.verdict}`.toLowerCase();
  if (!words.every((word) => text.includes(word))) return false;
  if (verdict === "example") return subject.examples.length > 0;
  return verdict === "" || subject.outcome === verdict;
}

const signs = { good: "✓", bad: "✗", open: "?" };

function verdictCell(subject) {
  const sign = el("span", { class: `sign ${subject.outcome}`, "aria-hidden": "true" }, signs[subject.outcome]);
  return el("td", { class: "verdict", title: subject.verdict }, sign, ` ${subject.verdict}`);
}

function matrixRow(subject) {
  const open = (property) => goTo(subject, property);
  const name = el("th", { scope: "row", role: "rowheader", tabindex: "-1", title: subject.summary, onclick: () => open(null) }, subject.name);
  const cells = data.properties.map((property, place) => {
    const [kind, text, story] = look(total(subject, place, chosen.fault));
    const has = exampleOf(subject, place) ? ", with a counterexample" : "";
    return el("td", {
      class: `cell ${kind}${has ? " has" : ""}`, role: "gridcell", tabindex: "-1",
      "aria-label": `${subject.name}, ${property.id} ${property.title}: ${story}${has}`,
      title: `${property.id} ${property.title}: ${story}`,
      onclick: () => open(place),
    }, text);
  });
  return el("tr", { "data-name": subject.id, class: subject.outcome }, name, verdictCell(subject), cells);
}

function groupRow(group, subjects) {
  const good = subjects.filter((subject) => subject.outcome === "good").length;
  const text = `${good} of ${subjects.length} as expected; ${data.introductions[group]}`;
  return el("tr", { class: "group" },
    el("th", { scope: "rowgroup" }, data.groups[group]),
    el("td", { colspan: data.properties.length + 1 }, text));
}

function drawMatrix() {
  const heads = data.properties.map((property) =>
    el("th", { scope: "col", title: `${property.title}: ${property.statement}` },
      property.id, el("small", {}, property.title)));
  const head = el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "lock"), el("th", { scope: "col" }, "verdict"), heads));
  const shown = data.subjects.filter(isShown);
  const bodies = data.groups.map((_, group) => {
    const theirs = shown.filter((subject) => subject.group === group);
    return theirs.length === 0 ? null : el("tbody", {}, groupRow(group, theirs), theirs.map(matrixRow));
  });
  byId("matrix").replaceChildren(head, ...bodies.filter(Boolean));
  byId("count").textContent = `${shown.length} of ${plural(data.subjects.length, "lock")}`;
  const first = gridRows()[0];
  if (first) focusable(first)[0].tabIndex = 0;
}

const gridRows = () => [...byId("matrix").querySelectorAll("tr[data-name]")];
const focusable = (row) => [...row.querySelectorAll("[tabindex]")];

function focusCell(cell) {
  for (const other of byId("matrix").querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
  cell.tabIndex = 0;
  cell.focus();
  cell.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function onMatrixKey(event) {
  const cell = event.target.closest("[tabindex]");
  const row = cell && cell.closest("tr[data-name]");
  if (!row || event.altKey || event.ctrlKey || event.metaKey) return;
  const rows = gridRows();
  const [down, across] = [rows.indexOf(row), focusable(row).indexOf(cell)];
  const at = (y, x) => {
    const cells = focusable(rows[Math.max(0, Math.min(y, rows.length - 1))]);
    return cells[Math.max(0, Math.min(x, cells.length - 1))];
  };
  const page = 10;
  const moves = {
    ArrowUp: () => at(down - 1, across), ArrowDown: () => at(down + 1, across),
    ArrowLeft: () => at(down, across - 1), ArrowRight: () => at(down, across + 1),
    PageUp: () => at(down - page, across), PageDown: () => at(down + page, across),
    Home: () => at(event.shiftKey ? 0 : down, 0), End: () => at(event.shiftKey ? rows.length : down, Infinity),
  };
  if (event.key === "Enter" || event.key === " ") cell.click();
  else if (moves[event.key]) focusCell(moves[event.key]());
  else return;
  event.preventDefault();
}

function setUpFilter() {
  const groups = data.groups.map((title, group) => {
    const count = data.subjects.filter((subject) => subject.group === group).length;
    if (count === 0) return null;
    const onchange = (event) => {
      if (event.target.checked) chosen.groups.add(group);
      else chosen.groups.delete(group);
      drawMatrix();
    };
    return el("label", { class: "chip" }, el("input", { type: "checkbox", checked: true, onchange }), ` ${title} (${count})`);
  });
  byId("groups").append(...groups.filter(Boolean));
  const faults = data.faults.map((fault, place) => el("option", { value: place, title: fault.summary }, fault.name));
  byId("fault").append(el("option", { value: "" }, "all together"), ...faults);
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  byId("name").addEventListener("input", (event) => { chosen.name = event.target.value; drawMatrix(); });
  byId("verdict").addEventListener("change", (event) => { chosen.verdict = event.target.value; drawMatrix(); });
  byId("fault").addEventListener("change", (event) => {
    chosen.fault = event.target.value === "" ? null : Number(event.target.value);
    drawMatrix();
  });
  byId("matrix").addEventListener("keydown", onMatrixKey);
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    const first = byId("matrix").querySelector('[tabindex="0"]');
    if (first) focusCell(first);
  });
}

function drawLegends() {
  const list = (pairs) => el("dl", {}, pairs.map(([term, text]) => [el("dt", {}, term), el("dd", {}, text)]));
  const properties = data.properties.map((it) => [`${it.id} ${it.title}`, it.statement]);
  const faults = data.faults.map((it) => [it.name, it.summary]);
  const runs = data.subjects.reduce((sum, subject) => sum + subject.runs, 0);
  const seen = data.probes.map((name, place) => {
    const count = data.subjects.reduce((sum, subject) => sum + (subject.probes[place] || 0), 0);
    return [name, `in ${number(count)} runs, ${((100 * count) / Math.max(runs, 1)).toFixed(1)} %`];
  });
  const legend = (title, pairs) => el("details", { class: "card" }, el("summary", {}, title), list(pairs));
  byId("legends").append(
    legend("What the properties say", properties),
    legend("What strikes", faults),
    legend("What the runs have seen", seen));
}
