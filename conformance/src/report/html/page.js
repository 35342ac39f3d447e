// The page: the current view, the keys, the colours.

const address = (subject, property) => {
  if (!subject) return "#";
  const id = property === null || property === undefined ? "" : `/${data.properties[property].id}`;
  return `#${encodeURIComponent(subject.id)}${id}`;
};

function goTo(subject, property = null) {
  if (location.hash === address(subject, property) || (!subject && !location.hash)) show();
  else location.hash = address(subject, property);
}

let before = null;

function show() {
  const [name, id] = location.hash.slice(1).split("/").map(decodeURIComponent);
  const subject = data.subjects.find((other) => other.id === name) || null;
  const place = data.properties.findIndex((property) => property.id === id);
  byId("overview").hidden = subject !== null;
  byId("detail").hidden = subject === null;
  if (subject) {
    drawDetail(subject, place < 0 ? null : place);
    if (shown.timeline) shown.timeline.go(shown.timeline.it.first);
    scrollTo(0, 0);
    byId("subject").focus({ preventScroll: true });
    before = [name, id];
    return;
  }
  shown = null;
  byId("detail").replaceChildren();
  if (before) focusAgain(...before);
}

// Returning to the matrix restores the focus.
function focusAgain(name, id) {
  const row = gridRows().find((other) => other.dataset.name === name);
  if (!row) return;
  const place = data.properties.findIndex((property) => property.id === id);
  focusCell(focusable(row)[place + 1]);
}

function onKey(event) {
  const typing = event.target.matches("input[type=search], select, textarea");
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else goTo(null);
    return;
  }
  if (typing) return;
  if (event.key === "/" && !shown) {
    event.preventDefault();
    byId("name").focus();
    return;
  }
  if (!shown || !shown.timeline) return;
  const { timeline } = shown;
  const last = timeline.it.steps.length - 1;
  const keys = {
    ArrowLeft: () => timeline.go(timeline.step - 1), ArrowRight: () => timeline.go(timeline.step + 1),
    Home: () => timeline.go(0), End: () => timeline.go(last),
    "+": () => timeline.zoom(0.5), "=": () => timeline.zoom(0.5), "-": () => timeline.zoom(2), 0: () => timeline.fit(),
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
}

const themes = ["auto", "light", "dark"];

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Colours: ${theme}`;
  byId("theme").onclick = () => {
    const next = themes[(themes.indexOf(theme) + 1) % themes.length];
    setTheme(next);
    try { localStorage.setItem("redouble-theme", next); } catch { /* this browser stores nothing */ }
  };
}

function savedTheme() {
  try {
    const theme = localStorage.getItem("redouble-theme");
    return themes.includes(theme) ? theme : "auto";
  } catch {
    return "auto";
  }
}

function setUp() {
  const runs = data.subjects.reduce((sum, subject) => sum + subject.runs, 0);
  const outcome = data.good ? "All verdicts as expected" : `${plural(data.subjects.filter((it) => it.outcome === "bad").length, "lock")} with an unexpected verdict`;
  document.title = `${outcome} – redouble-check`;
  byId("outcome").textContent = outcome;
  byId("outcome").className = data.good ? "good" : "bad";
  byId("facts").textContent =
    `${plural(runs, "run")} of ${plural(data.subjects.length, "lock")} on ${data.backend || "nothing"}, ` +
    `${data.seconds.toFixed(1)} s. Each run is judged by every property.`;
  setTheme(savedTheme());
  setUpFilter();
  drawMatrix();
  drawLegends();
  document.addEventListener("keydown", onKey);
  addEventListener("hashchange", show);
  addEventListener("resize", () => { if (shown && shown.timeline) shown.timeline.draw(); });
  show();
}

setUp();
