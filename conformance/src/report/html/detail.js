// One lock: its matrix of faults and properties, and its counterexamples.

// The current view: { subject, example, timeline }.
let shown = null;

function drawDetail(subject, property) {
  const example = property === null ? subject.examples[0] : exampleOf(subject, property);
  const detail = byId("detail");
  const back = el("button", { type: "button", id: "back", onclick: () => goTo(null) }, "← all locks");
  const badge = el("span", { class: `badge ${subject.outcome}` }, subject.verdict);
  shown = { subject, example: null, timeline: null };
  detail.replaceChildren(
    el("nav", {}, back, neighbours(subject)),
    el("h2", { tabindex: "-1", id: "subject" }, `${subject.name} `, badge),
    el("p", {}, facts(subject)));
  if (subject.examples.length > 0) detail.append(examples(subject, example));
  else detail.append(el("p", { class: "card calm" }, "There is no counterexample: nothing that it promises broke."));
  detail.append(faultTable(subject, property));
  if (shown.timeline) shown.timeline.draw();
}

function facts(subject) {
  const parts = [
    subject.summary ? `${subject.summary}. ` : "",
    subject.met ? `Such code occurs in: ${subject.met}. ` : "",
    `${plural(subject.runs, "run")}, ${plural(subject.grants, "grant")}, ${subject.seconds.toFixed(1)} s.`,
  ];
  if (subject.expected.length > 0) {
    parts.push(` Must be convicted of ${subject.expected.map((place) => data.properties[place].id).join(", ")}.`);
  }
  if (subject.unsupported > 0) parts.push(` ${plural(subject.unsupported, "scenario")} cannot be played on this backend.`);
  if (subject.inconclusive > 0) parts.push(` ${plural(subject.inconclusive, "run")} spoiled because the machine paused, and repeated.`);
  if (subject.fixed) parts.push(` The scenarios written by hand, ${subject.fixed}.`);
  return parts.join("");
}

function neighbours(subject) {
  const at = data.subjects.indexOf(subject);
  const link = (place, text) => {
    const other = data.subjects[place];
    return other ? el("button", { type: "button", onclick: () => goTo(other, null) }, text(other.name)) : null;
  };
  return [link(at - 1, (name) => `‹ ${name}`), link(at + 1, (name) => `${name} ›`)];
}

function faultTable(subject, chosenProperty) {
  const judged = data.properties.keys().filter((property) => subject.cells.some((cell) => cell.property === property)).toArray();
  const head = el("tr", {}, el("th", {}, "what strikes"), judged.map((property) => {
    const { id, title, statement } = data.properties[property];
    return el("th", { scope: "col", title: statement, class: property === chosenProperty ? "chosen" : null }, id, el("small", {}, title));
  }));
  const rows = data.faults.map((fault, place) => {
    if (!subject.cells.some((cell) => cell.fault === place)) return null;
    const cells = judged.map((property) => {
      const [kind, text, story] = look(total(subject, property, place));
      return el("td", { class: `cell ${kind}`, title: `${fault.name}, ${data.properties[property].id}: ${story}` }, text);
    });
    return el("tr", {}, el("th", { scope: "row", title: fault.summary }, fault.name), cells);
  });
  return el("section", {},
    el("h3", {}, "Faults and properties"),
    el("div", { class: "scroll card" }, el("table", { class: "faults" }, el("thead", {}, head), el("tbody", {}, rows.filter(Boolean)))));
}

function examples(subject, example) {
  const tabs = subject.examples.map((other) => {
    const { id, title } = data.properties[other.property];
    const current = other === example ? "true" : null;
    return el("button", { type: "button", "aria-current": current, onclick: () => goTo(subject, other.property) }, `${id} ${title}`);
  });
  const section = el("section", { class: "card", id: "example" }, el("div", { class: "tabs" }, tabs));
  if (example) section.append(...exampleParts(subject, example));
  else section.append(el("p", { class: "calm" }, "There is no counterexample for this property; those above are for others."));
  return section;
}

function exampleParts(subject, example) {
  const { id, title } = data.properties[example.property];
  const small = example.shrunk > 0 ? `, shrunk from ${example.before} in ${example.shrunk} runs` : "";
  const told = `seed ${example.seed}, ${plural(example.events.length, "step")}${small}, ${example.servers}, ${data.faults[example.fault].name}`;
  const timeline = new Timeline(example.timeline, showStep);
  shown.example = example;
  shown.timeline = timeline;
  return [
    el("h3", {}, `${id} ${title} `, el("small", {}, told)),
    el("p", { class: "witness", id: "witness" }, example.message || ""),
    controls(timeline),
    timeline.frame,
    legend(),
    el("div", { class: "columns" }, stepList(timeline), recipes(example)),
  ];
}

function controls(timeline) {
  const last = timeline.it.steps.length - 1;
  const button = (text, label, onclick) => el("button", { type: "button", title: label, "aria-label": label, onclick }, text);
  const slider = el("input", {
    type: "range", id: "slider", min: 0, max: last, value: 0, "aria-label": "step",
    oninput: (event) => timeline.go(Number(event.target.value)),
  });
  return el("div", { class: "controls" },
    button("«", "first step (Home)", () => timeline.go(0)),
    button("‹", "step back (left)", () => timeline.go(timeline.step - 1)),
    slider,
    button("›", "step on (right)", () => timeline.go(timeline.step + 1)),
    button("»", "last step (End)", () => timeline.go(last)),
    button("−", "show more time (-)", () => timeline.zoom(2)),
    button("+", "show less time around the step (+)", () => timeline.zoom(0.5)),
    button("all", "show all (0)", () => timeline.fit()),
    el("output", { id: "step", for: "slider" }));
}

function legend() {
  const key = (kind, text) => el("span", {}, el("i", { class: kind }), text);
  return el("p", { class: "hint keys" },
    key("k-belief", "believes that it holds"), key("k-deadline", "until its deadline"), key("k-wait", "waits"),
    key("k-stored", "owner, as the server sees it"), key("k-paused", "paused"), key("k-down", "crashed"),
    key("k-skew", "clock wrong"), key("k-fault", "network fault"), key("k-wrong", "broken"), key("k-lost", "message lost"));
}

function stepList(timeline) {
  const rows = timeline.it.steps.map((step, place) =>
    el("li", { class: step.bad ? "bad" : null, onclick: () => timeline.go(place) },
      el("span", { class: "at" }, seconds(step.at)), el("span", { class: "who" }, step.who), el("span", {}, step.text)));
  return el("div", {}, el("h4", {}, "What happened"), el("ol", { class: "steps", id: "steps", tabindex: "0" }, rows));
}

function showStep(place) {
  const { timeline } = shown;
  const step = timeline.it.steps[place];
  byId("slider").value = place;
  const text = step ? `step ${place + 1} of ${timeline.it.steps.length} · ${seconds(step.at)} · ${step.who}: ${step.text}` : "";
  byId("step").textContent = text;
  byId("slider").setAttribute("aria-valuetext", text);
  const list = byId("steps");
  for (const row of list.querySelectorAll("[aria-current]")) row.removeAttribute("aria-current");
  const row = list.children[place];
  if (!row) return;
  row.setAttribute("aria-current", "step");
  const [top, bottom] = [row.offsetTop - list.offsetTop, row.offsetTop - list.offsetTop + row.offsetHeight];
  if (top < list.scrollTop) list.scrollTop = top;
  else if (bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight;
}

function recipes(example) {
  const words = example.events.map(([at, text]) => `${seconds(at).padStart(10)}  ${text}`).join("\n");
  const forms = [["In words", words], ["Rust test", example.rust], ["JSON", example.json], ["Replay", example.command]];
  const text = el("pre", { id: "recipe", tabindex: "0" });
  const tabs = forms.map(([name, form]) => el("button", { type: "button", onclick: (event) => choose(event.target, form) }, name));
  const choose = (tab, form) => {
    tabs.forEach((other) => other.removeAttribute("aria-current"));
    tab.setAttribute("aria-current", "true");
    text.textContent = form;
  };
  const copy = el("button", { type: "button", id: "copy", onclick: () => copyText(text, copy) }, "Copy");
  choose(tabs[0], forms[0][1]);
  return el("div", {}, el("h4", {}, "The scenario"), el("div", { class: "tabs" }, tabs, copy), text);
}

async function copyText(element, button) {
  try {
    await navigator.clipboard.writeText(element.textContent);
  } catch {
    getSelection().selectAllChildren(element);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}
