// Shared parts: the data, elements, times.

const data = JSON.parse(document.getElementById("data").textContent);

const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// Makes an element with attributes (those that start with "on" are listeners) and children.
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

// Makes an SVG element.
const draw = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Milliseconds as seconds, with as many digits as necessary.
const seconds = (ms) => `${Number((ms / 1000).toFixed(3))} s`;

const number = (value) => value.toLocaleString("en-US");

const plural = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;

// The runs of a cell. See `cells` in data.rs for the order.
function cellOf(row) {
  const [fault, property, held = 0, broken = 0, outside = 0, unknown = 0, seed = null] = row;
  return { fault, property, held, broken, outside, unknown, seed };
}

for (const subject of data.subjects) subject.cells = subject.cells.map(cellOf);

// The runs of a subject and a property under one fault, or under all faults (null).
function total(subject, property, fault) {
  const sum = { held: 0, broken: 0, outside: 0, unknown: 0, seed: null };
  for (const cell of subject.cells) {
    if (cell.property !== property || (fault !== null && cell.fault !== fault)) continue;
    for (const key of ["held", "broken", "outside", "unknown"]) sum[key] += cell[key];
    if (cell.seed !== null && (sum.seed === null || cell.seed < sum.seed)) sum.seed = cell.seed;
  }
  return sum;
}

// The class, the text and the description of a cell.
function look(cell) {
  const runs = cell.held + cell.broken + cell.outside;
  const first = cell.seed === null ? "" : `, first by seed ${cell.seed}`;
  if (cell.broken > 0) {
    return ["broken", `✗ ${cell.broken}`, `broken in ${cell.broken} of ${plural(runs, "run")}${first}`];
  }
  if (cell.outside > 0) {
    const text = `broken in ${cell.outside} of ${plural(runs, "run")}, outside of its guarantee${first}`;
    return ["outside", `(${cell.outside})`, text];
  }
  if (cell.held > 0) return ["holds", "✓", `held in ${plural(runs, "run")}`];
  if (cell.unknown > 0) return ["unknown", "·", "no run said enough"];
  return ["none", "", "not run"];
}

const exampleOf = (subject, property) => subject.examples.find((example) => example.property === property);
