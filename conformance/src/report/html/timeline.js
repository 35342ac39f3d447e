// A counterexample on an axis of true time. Redrawn whenever the step or the view changes.

const LEFT = 92;
const RIGHT = 14;
const TOP = 20;
const HEIGHTS = { client: 46, link: 32, node: 18, resource: 26 };

class Timeline {
  constructor(timeline, onStep) {
    this.it = timeline;
    this.step = 0;
    this.view = [0, timeline.end];
    this.onStep = onStep;
    this.root = draw("svg", { role: "img", class: "timeline" });
    this.frame = el("div", { class: "scroll" }, this.root);
    this.layOut();
  }

  layOut() {
    let y = TOP;
    let last = null;
    this.tops = this.it.lanes.map((lane) => {
      const group = lane.kind === "client" || lane.kind === "link" ? lane.hue : lane.kind;
      if (last !== null && last !== group) y += 8;
      last = group;
      const top = y;
      y += this.height(lane);
      return top;
    });
    this.bottom = y;
  }

  height(lane) {
    return lane.kind === "node" ? Math.max(32, HEIGHTS.node * lane.rows + 12) : HEIGHTS[lane.kind];
  }

  x(at) {
    const [from, to] = this.view;
    return LEFT + ((at - from) / (to - from)) * (this.width - LEFT - RIGHT);
  }

  draw() {
    this.width = Math.max(640, this.frame.clientWidth);
    const height = this.bottom + 26;
    fill(this.root, { viewBox: `0 0 ${this.width} ${height}`, width: this.width, height, "aria-label": this.story() }, []);
    const plot = draw("g", { "clip-path": "url(#plot)" },
      this.axis(), this.rails(), this.wrong(), this.spans(), this.messages(), this.marks(), this.future(), this.cursor());
    this.root.replaceChildren(this.definitions(), plot, this.heads(), this.ticks());
  }

  story() {
    const step = this.it.steps[this.step];
    return step ? `timeline at ${seconds(step.at)}: ${step.who}: ${step.text}` : "timeline";
  }

  definitions() {
    const stripes = (id, angle, width) => draw("pattern", { id, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` },
      draw("rect", { width, height: 7, class: "stripe" }));
    return draw("defs", {}, stripes("stripes", 45, 3), stripes("dense", -45, 5),
      draw("clipPath", { id: "plot" }, draw("rect", { x: LEFT - 3, y: 0, width: this.width - LEFT - RIGHT + 6, height: this.bottom + 8 })));
  }

  // Round times, as many as there is room for.
  steps() {
    const [from, to] = this.view;
    const most = Math.max(3, Math.floor((this.width - LEFT) / 110));
    let size = 0.001;
    for (let place = 0; (to - from) / size > most; place += 1) size *= [2, 2.5, 2][place % 3];
    const ticks = [];
    for (let at = Math.ceil(from / size) * size; at <= to; at += size) ticks.push(at);
    return ticks;
  }

  axis() {
    return this.steps().map((at) => draw("line", { class: "grid", x1: this.x(at), x2: this.x(at), y1: TOP - 8, y2: this.bottom }));
  }

  ticks() {
    const texts = this.steps().map((at) => draw("text", { class: "tick", x: this.x(at), y: this.bottom + 18 }, seconds(at)));
    return draw("g", {}, texts);
  }

  wrong() {
    if (!this.it.wrong) return [];
    const [from, to] = this.it.wrong.map((at) => this.x(at));
    return [draw("rect", { class: "wrong", x: from, y: TOP - 10, width: Math.max(3, to - from), height: this.bottom - TOP + 12 },
      draw("title", {}, `broken from ${seconds(this.it.wrong[0])} to ${seconds(this.it.wrong[1])}`))];
  }

  middle(lane) {
    return this.tops[lane] + this.height(this.it.lanes[lane]) / 2;
  }

  rails() {
    return this.it.lanes.map((lane, place) => {
      const y = this.middle(place);
      return draw("line", { class: `rail ${lane.kind}`, x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y });
    });
  }

  heads() {
    return draw("g", {}, this.it.lanes.map((lane, place) =>
      draw("text", { class: `lane ${lane.kind}`, x: 4, y: this.middle(place) + 4 }, lane.name)));
  }

  // Position of a span in its lane: its offset from the top, and its height.
  band(span) {
    const lane = this.it.lanes[span.lane];
    const whole = this.height(lane);
    if (span.kind === "wait") return [whole / 2 + 1, 5];
    if (span.kind === "belief" || span.kind === "deadline") return [15, 22];
    if (span.kind === "stored") return [6 + HEIGHTS.node * span.row, HEIGHTS.node - 2];
    if (span.kind === "skew") return [whole - 7, 6];
    return [1, whole - 2];
  }

  spans() {
    const order = ["trouble", "delay", "partition", "wait", "deadline", "belief", "stored", "skew", "paused", "down", "cut"];
    const sorted = [...this.it.spans].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
    return sorted.flatMap((span) => this.span(span));
  }

  span(span) {
    const [offset, height] = this.band(span);
    const [x, y] = [this.x(span.from), this.tops[span.lane] + offset];
    const width = Math.max(span.kind === "deadline" ? 0.5 : 2, this.x(span.to) - x);
    const shape = draw("rect", { class: `span ${span.kind} h${span.hue === 255 ? "x" : span.hue % 6}`, x, y, width, height, rx: span.kind === "belief" ? 4 : 1 },
      draw("title", {}, span.text));
    const name = span.kind === "belief" ? "believes" : span.name;
    const left = Math.max(x, LEFT);
    const room = Math.min(x + width, this.width - RIGHT) - left;
    if (!name || room < name.length * 6.6 + 12) return [shape];
    return [shape, draw("text", { class: "name", x: left + 6, y: y + height / 2 + 4 }, name)];
  }

  messages() {
    const free = new Map();
    return this.it.messages.flatMap((message) => this.message(message, free));
  }

  message(message, free) {
    const [link, client, server] = message.lanes;
    const y = this.tops[link] + (message.reply ? 23 : 9);
    const lost = message.arrived === null;
    const from = this.x(message.sent);
    const to = lost ? from + 14 : Math.max(from + 2, this.x(message.arrived));
    const what = message.reply ? "reply" : "request";
    const fate = lost
      ? (message.reply ? "executed, but the reply was lost" : "lost")
      : `arrives at ${seconds(message.arrived)}`;
    const title = draw("title", {}, `${what} ${message.text}: sent at ${seconds(message.sent)}, ${fate}`);
    const now = this.it.steps[this.step];
    const near = (at) => at !== null && now && Math.abs(at - now.at) < 0.5;
    const active = near(message.sent) || near(message.arrived);
    const parts = [draw("line", { class: "hit", x1: from - 3, x2: to + 3, y1: y, y2: y }),
      draw("line", { x1: from, x2: to, y1: y, y2: y })];
    if (lost) {
      parts.push(draw("path", { d: `M${to - 4} ${y - 4}l8 8m0 -8l-8 8` }));
    } else {
      parts.push(draw("path", { class: "tip", d: `M${to + 1} ${y}l-5 -3v6z` }));
    }
    if (active) {
      const [start, end] = message.reply ? [server, client] : [client, server];
      parts.push(draw("line", { class: "way", x1: from, x2: from, y1: y, y2: this.edge(start, y) }));
      if (!lost) parts.push(draw("line", { class: "way", x1: to, x2: to, y1: y, y2: this.edge(end, y) }));
    }
    const label = lost ? (message.reply ? "reply lost" : "lost") : message.text;
    const row = `${link}${message.reply}`;
    const start = to + 6;
    if (start > (free.get(row) || LEFT) && (lost || this.roomAfter(message, start) > label.length * 5.6 + 8)) {
      parts.push(draw("text", { x: start, y: y + 3.5 }, label));
      free.set(row, start + label.length * (lost ? 6.4 : 5.6));
    }
    const kind = `message ${what}${lost ? " lost" : ""}${active ? " active" : ""}`;
    return [draw("g", { class: kind }, title, parts)];
  }

  roomAfter(message, x) {
    const later = this.it.messages.filter((other) =>
      other.lanes[0] === message.lanes[0] && other.reply === message.reply && other.sent > message.sent);
    const next = Math.min(...later.map((other) => this.x(other.sent)), this.width - RIGHT);
    return next - x;
  }

  edge(lane, from) {
    const top = this.tops[lane];
    return top > from ? top + 6 : top + this.height(this.it.lanes[lane]) - 8;
  }

  marks() {
    const ends = new Map();
    return this.it.marks.flatMap((mark) => {
      const x = this.x(mark.at);
      const top = this.tops[mark.lane];
      const kind = `mark ${mark.bad ? "bad" : ""}`;
      const line = draw("line", { class: kind, x1: x, x2: x, y1: top + 2, y2: top + this.height(this.it.lanes[mark.lane]) - 2 },
        draw("title", {}, `${seconds(mark.at)}: ${mark.text}`));
      const text = mark.text.length > 24 ? `${mark.text.slice(0, 23)}…` : mark.text;
      const room = text.length * 6.2;
      const end = ends.get(mark.lane) || 0;
      const flip = x + room > this.width - RIGHT;
      const start = flip ? x - 3 - room : x + 3;
      if (start < end) return [line];
      ends.set(mark.lane, start + room);
      const label = draw("text", { class: kind, x: flip ? x - 3 : x + 3, y: top + 11, "text-anchor": flip ? "end" : "start" }, text);
      return [line, label];
    });
  }

  // Events after this step are pale.
  future() {
    const step = this.it.steps[this.step];
    if (!step) return [];
    const x = this.x(step.at);
    return [draw("rect", { class: "future", x, y: TOP - 10, width: Math.max(0, this.width - RIGHT - x), height: this.bottom - TOP + 12 })];
  }

  cursor() {
    const step = this.it.steps[this.step];
    if (!step) return [];
    const x = this.x(step.at);
    const parts = [
      draw("line", { class: "cursor", x1: x, x2: x, y1: TOP - 12, y2: this.bottom + 2 })];
    if (step.lane !== null) parts.push(draw("circle", { class: step.bad ? "cursor bad" : "cursor", cx: x, cy: this.middle(step.lane), r: 5 }));
    return parts;
  }

  go(step) {
    this.step = Math.max(0, Math.min(step, this.it.steps.length - 1));
    this.follow();
    this.draw();
    this.onStep(this.step);
  }

  // Moves the view so that it contains the step.
  follow() {
    const step = this.it.steps[this.step];
    const [from, to] = this.view;
    if (step && (step.at < from || step.at > to)) this.look((to - from), step.at);
  }

  look(length, middle) {
    const whole = this.it.end;
    const size = Math.min(Math.max(length, 0.5), whole);
    const from = Math.max(0, Math.min(middle - size / 2, whole - size));
    this.view = [from, from + size];
  }

  zoom(factor) {
    const [from, to] = this.view;
    const step = this.it.steps[this.step];
    this.look((to - from) * factor, step ? step.at : (from + to) / 2);
    this.draw();
  }

  fit() {
    this.view = [0, this.it.end];
    this.draw();
  }
}
