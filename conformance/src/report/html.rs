//! The report as one HTML file that needs nothing else: verdict matrix and timelines.

use super::{Lane, Tokens, json::Saved, notes, rows, terminal, time, verdict};
use crate::{
    checker::Property,
    history::{Actor, Belief, Call, Cause, History, Moment, PROBE_HOST, Stored, What},
    runner::{Counterexample, Trial},
    subject::{Expected, subjects},
    verdict::Cell,
};
use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    time::Duration,
};

/// The whole page.
#[must_use]
pub fn page(trials: &[Trial]) -> String {
    let mut html = String::new();
    // Writing to a string does not fail.
    let _ = write_page(&mut html, trials);
    html
}

fn write_page(out: &mut String, trials: &[Trial]) -> fmt::Result {
    let good = trials.iter().all(Trial::as_expected);
    let runs: u64 = trials.iter().map(|trial| trial.coverage.runs).sum();
    let backend = trials.first().map_or("", |trial| trial.backend.as_str());
    let outcome = if good {
        "All verdicts as expected"
    } else {
        "Not all verdicts as expected"
    };
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{outcome} – redouble-check</title><style>{STYLE}</style>\n\
         <header><h1 class=\"{}\">{outcome}</h1>\
         <p>{runs} runs of {} on <b>{}</b>. A scenario is judged by every property; \
         verdicts are per property.</p></header>\n",
        if good { "good" } else { "bad" },
        match trials.len() {
            1 => "one lock".to_owned(),
            count => format!("{count} locks"),
        },
        escape(backend),
    )?;
    for trial in trials {
        write_trial(out, trial)?;
    }
    write_legend(out)?;
    write_coverage(out, trials)
}

fn write_trial(out: &mut String, trial: &Trial) -> fmt::Result {
    let class = if trial.as_expected() { "good" } else { "bad" };
    let summary = subjects().find(|row| (row.make)().name() == trial.name);
    let seconds = trial.elapsed.as_secs_f64();
    write!(
        out,
        "<section id=\"{name}\"><h2>{name} <span class=\"badge {class}\">{}</span></h2><p>{} \
         {} runs, {} grants, {seconds:.1} s.{}</p>",
        escape(&verdict(trial)),
        summary.map_or_else(String::new, |row| format!("{}.", escape(row.summary))),
        trial.coverage.runs,
        trial.coverage.grants,
        match trial.inconclusive {
            0 => String::new(),
            spoiled => format!(" {spoiled} runs were spoiled by the machine and repeated."),
        },
        name = escape(trial.name),
    )?;
    out.push_str("<div class=\"scroll\"><table><thead><tr><th>what strikes</th>");
    for property in Property::ALL {
        write!(
            out,
            "<th title=\"{}\">{property}</th>",
            escape(property.statement())
        )?;
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows() {
        let cells = Property::ALL.map(|property| trial.cells.get(&(row, property)));
        if cells.iter().all(Option::is_none) {
            continue;
        }
        write!(out, "<tr><th>{row}</th>")?;
        for cell in cells {
            write_cell(out, &cell.copied().unwrap_or_default())?;
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
    for example in &trial.counterexamples {
        write_example(out, trial, example)?;
    }
    out.push_str("</section>\n");
    Ok(())
}

fn write_cell(out: &mut String, cell: &Cell) -> fmt::Result {
    let runs = cell.held + cell.broken + cell.outside;
    let (class, text) = if cell.broken > 0 {
        ("broken", format!("broken {} of {runs}", cell.broken))
    } else if cell.outside > 0 {
        (
            "outside",
            format!("outside its guarantee: {} of {runs}", cell.outside),
        )
    } else if cell.held > 0 {
        ("holds", format!("holds {runs}"))
    } else if cell.unknown > 0 {
        ("unknown", "not judged here".to_owned())
    } else {
        ("unknown", terminal::mark(cell))
    };
    let seed = cell
        .seed
        .map_or_else(String::new, |seed| format!(" title=\"first seed: {seed}\""));
    write!(out, "<td class=\"{class}\"{seed}>{text}</td>")
}

fn write_example(out: &mut String, trial: &Trial, example: &Counterexample) -> fmt::Result {
    let Counterexample {
        property,
        seed,
        scenario,
        judged,
        events_before,
        shrink_runs,
    } = example;
    let convicted = matches!(trial.expected, Expected::Convicted(_));
    write!(
        out,
        "<article><h3>{} {property}: seed {seed}, {} steps{}</h3>",
        if convicted { "Convicted of" } else { "Breaks" },
        scenario.events.len(),
        match shrink_runs {
            0 => String::new(),
            runs => format!(" <small>made small from {events_before} in {runs} runs</small>"),
        }
    )?;
    if let Some(witness) = judged.witness(*property) {
        write!(out, "<p class=\"witness\">{}</p>", escape(&witness.message))?;
    }
    Timeline::of(example).write(out)?;
    out.push_str("<details><summary>The script</summary><ol>");
    for event in &scenario.events {
        let (at, what) = (time(event.at()), event.happening.to_string());
        write!(out, "<li><b>{at}</b> {}</li>", escape(&what))?;
    }
    out.push_str("</ol></details><details><summary>What happened, step by step</summary>");
    out.push_str("<div class=\"scroll\"><table class=\"steps\">");
    for note in notes(&judged.run.history) {
        let lane = match note.lane {
            Lane::Client(actor) => actor.to_string(),
            Lane::Server => "server stores".to_owned(),
        };
        let class = if note.bad { " class=\"bad\"" } else { "" };
        let (at, text) = (time(note.at.at), escape(&note.text));
        write!(
            out,
            "<tr{class}><td>{at}</td><td>{lane}</td><td>{text}</td></tr>"
        )?;
    }
    let saved = Saved::of(trial, example).to_json();
    writeln!(
        out,
        "</table></div></details><details><summary>Replay it</summary><p>Save this as \
         <code>case.json</code> and run <code>redouble-check replay case.json</code>.</p>\
         <pre>{}</pre></details></article>",
        escape(&saved)
    )
}

fn write_legend(out: &mut String) -> fmt::Result {
    out.push_str("<section><h2>What the properties say</h2><dl>");
    for property in Property::ALL {
        write!(
            out,
            "<dt>{property}</dt><dd>{}</dd>",
            escape(property.statement())
        )?;
    }
    out.push_str("</dl></section>\n");
    Ok(())
}

fn write_coverage(out: &mut String, trials: &[Trial]) -> fmt::Result {
    out.push_str(
        "<section><h2>What the runs have seen</h2><div class=\"scroll\"><table><tr><th></th>",
    );
    for trial in trials {
        write!(out, "<th>{}</th>", escape(trial.name))?;
    }
    out.push_str("</tr>");
    let names: Vec<&str> = trials.first().map_or_else(Vec::new, |trial| {
        trial.coverage.sights().map(|it| it.0).collect()
    });
    for (index, name) in names.iter().enumerate() {
        write!(out, "<tr><th>{name}</th>")?;
        for trial in trials {
            let count = trial.coverage.sights().nth(index).map_or(0, |it| it.1);
            let percent = 100.0 * count as f64 / trial.coverage.runs.max(1) as f64;
            write!(out, "<td>{percent:.1} %</td>")?;
        }
        out.push_str("</tr>");
    }
    out.push_str("</table></div></section></html>\n");
    Ok(())
}

/// A counterexample on an axis of true time.
struct Timeline<'a> {
    history: &'a History,
    beliefs: Vec<Belief>,
    clients: Vec<Actor>,
    end: Duration,
    overlap: Option<(Duration, Duration)>,
}

/// The drawing's measures, in pixels.
const LEFT: f64 = 78.0;
const WIDTH: f64 = 1_000.0;
const LANE: f64 = 52.0;
const TOP: f64 = 14.0;

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a drawing shows some of what happens"
)]
impl<'a> Timeline<'a> {
    fn of(example: &'a Counterexample) -> Self {
        let history = &example.judged.run.history;
        let calls = history.calls();
        let mut clients: Vec<Actor> = calls.values().map(|&(_, actor, _)| actor).collect();
        clients.retain(|actor| actor.host != PROBE_HOST);
        clients.sort_unstable();
        clients.dedup();
        let beliefs = history.beliefs();
        let witness = example.judged.witness(example.property);
        let overlap = witness.map(|witness| {
            let from = if witness.at == Moment::NEVER {
                Duration::ZERO
            } else {
                witness.at.at
            };
            (from, witness.until.unwrap_or(from))
        });
        let script = Duration::from_millis(example.scenario.end_ms());
        let last = overlap
            .map_or(Duration::ZERO, |(_, until)| until)
            .max(script);
        // The rest of the run is the death of all clients and the probe.
        let end = (last + history.lease / 3).max(Duration::from_millis(1));
        Self {
            history,
            beliefs,
            clients,
            end,
            overlap,
        }
    }

    fn x(&self, at: Duration) -> f64 {
        LEFT + (WIDTH - LEFT) * (at.as_secs_f64() / self.end.as_secs_f64()).min(1.0)
    }

    fn y(&self, actor: Actor) -> f64 {
        let lane = self.clients.iter().position(|&other| other == actor);
        TOP + LANE * lane.unwrap_or(self.clients.len()) as f64
    }

    fn server(&self) -> f64 {
        TOP + LANE * self.clients.len() as f64
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let lanes = self.clients.len() + usize::from(self.history.observed);
        let height = TOP + LANE * lanes as f64 + 26.0;
        write!(
            out,
            "<div class=\"scroll\"><svg viewBox=\"0 0 {} {height}\" role=\"img\" \
             aria-label=\"timeline\"><defs><pattern id=\"stripes\" width=\"7\" height=\"7\" \
             patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"3\" \
             height=\"7\" class=\"stripe\"/></pattern></defs>",
            WIDTH + 12.0
        )?;
        self.write_axis(out, height)?;
        if let Some((from, until)) = self.overlap {
            let (x, width) = (self.x(from), (self.x(until) - self.x(from)).max(3.0));
            let tall = LANE * lanes as f64;
            let y = TOP - 6.0;
            write!(
                out,
                "<rect class=\"wrong\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{tall}\"/>"
            )?;
        }
        self.write_lanes(out)?;
        self.write_waits(out)?;
        self.write_beliefs(out)?;
        self.write_pauses(out)?;
        self.write_server(out)?;
        self.write_marks(out)?;
        out.push_str("</svg></div>");
        Ok(())
    }

    fn write_axis(&self, out: &mut String, height: f64) -> fmt::Result {
        let lease = self.history.lease.as_secs_f64().max(0.001);
        let span = self.end.as_secs_f64();
        // Ticks every sixth, third, half or whole of a lease: at most ten of them.
        let parts = [6.0, 3.0, 2.0, 1.0, 0.5, 0.25];
        let step = parts
            .iter()
            .map(|part| lease / part)
            .find(|step| span / step <= 10.0);
        let step = step.unwrap_or(span / 10.0);
        let mut tick = 0.0;
        while tick <= span {
            let at = Duration::from_secs_f64(tick);
            let (x, bottom) = (self.x(at), height - 20.0);
            write!(
                out,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{}\">{}</text>",
                TOP - 8.0,
                height - 6.0,
                time(at)
            )?;
            tick += step;
        }
        Ok(())
    }

    fn write_lanes(&self, out: &mut String) -> fmt::Result {
        let label = |out: &mut String, y: f64, text: &str| {
            let middle = y + 22.0;
            write!(
                out,
                "<text class=\"lane\" x=\"4\" y=\"{}\">{text}</text><line class=\"rail\" \
                 x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{middle}\" y2=\"{middle}\"/>",
                y + 26.0
            )
        };
        for &actor in &self.clients {
            label(out, self.y(actor), &actor.to_string())?;
        }
        if self.history.observed {
            label(out, self.server(), "server")?;
        }
        Ok(())
    }

    /// A thin bar from the start of an acquisition to its end.
    fn write_waits(&self, out: &mut String) -> fmt::Result {
        let calls = self.history.calls();
        for entry in &self.history.entries {
            let (What::Ok { op, .. } | What::Fail { op, .. } | What::Info { op, .. }) = &entry.what
            else {
                continue;
            };
            let Some(&(asked, actor, call)) = calls.get(op) else {
                continue;
            };
            if !call.acquires() || actor.host == PROBE_HOST {
                continue;
            }
            let (x, y) = (self.x(asked.at), self.y(actor) + 20.0);
            let width = (self.x(entry.at) - x).max(1.0);
            write!(
                out,
                "<rect class=\"wait\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"4\">\
                 <title>{actor} asks from {} to {}</title></rect>",
                time(asked.at),
                time(entry.at)
            )?;
        }
        Ok(())
    }

    fn write_beliefs(&self, out: &mut String) -> fmt::Result {
        for belief in self
            .beliefs
            .iter()
            .filter(|belief| belief.actor.host != PROBE_HOST)
        {
            let (x, y) = (self.x(belief.from.at), self.y(belief.actor) + 10.0);
            let width = (self.x(belief.to.at) - x).max(3.0);
            let hue = belief.actor.host % 6;
            write!(
                out,
                "<rect class=\"belief h{hue}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" \
                 height=\"24\" rx=\"4\"><title>{} believes from {} to {} ({:?})</title></rect>",
                belief.actor,
                time(belief.from.at),
                time(belief.to.at),
                belief.end
            )?;
        }
        Ok(())
    }

    fn write_pauses(&self, out: &mut String) -> fmt::Result {
        let mut since: BTreeMap<(u8, bool), Duration> = BTreeMap::new();
        for entry in &self.history.entries {
            let (host, from) = match entry.what {
                What::Pause { host } => {
                    since.insert((host, false), entry.at);
                    continue;
                }
                What::Crash { host } => {
                    since.insert((host, true), entry.at);
                    continue;
                }
                What::Resume { host } => (host, since.remove(&(host, false))),
                What::Restart { host } => (host, since.remove(&(host, true))),
                _ => continue,
            };
            let Some(from) = from else { continue };
            for &actor in self.clients.iter().filter(|actor| actor.host == host) {
                let (x, y) = (self.x(from), self.y(actor) + 4.0);
                let width = (self.x(entry.at) - x).max(2.0);
                write!(
                    out,
                    "<rect class=\"pause\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" \
                     height=\"36\"><title>{actor} does not run from {} to {}</title></rect>",
                    time(from),
                    time(entry.at)
                )?;
            }
        }
        Ok(())
    }

    /// Who owns the key as the server sees it.
    fn write_server(&self, out: &mut String) -> fmt::Result {
        let mut tokens = Tokens::default();
        let mut standing: Option<(Duration, &Stored, u8, String)> = None;
        let ends = self
            .history
            .entries
            .iter()
            .filter_map(|entry| match &entry.what {
                // One bar per node is for a later day: the first one, and its first holder.
                What::Server {
                    node: 0,
                    cause,
                    stored,
                } => Some((entry.at, *cause, stored.first())),
                _ => None,
            });
        for (at, cause, next) in ends.chain([(self.end, Cause::Server, None)]) {
            if let Some((from, stored, owner, name)) = standing.take() {
                let until = stored.gone_at().map_or(at, |gone| gone.min(at));
                let (x, y) = (self.x(from), self.server() + 10.0);
                let width = (self.x(until) - x).max(2.0);
                write!(
                    out,
                    "<rect class=\"stored h{}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" \
                     height=\"24\"><title>{name}, from {} to {}</title></rect>",
                    owner % 6,
                    time(from),
                    time(until)
                )?;
                if width > 60.0 {
                    write!(
                        out,
                        "<text class=\"name\" x=\"{:.1}\" y=\"{}\">{name}</text>",
                        x + 6.0,
                        y + 16.0
                    )?;
                }
            }
            if at > self.end {
                break;
            }
            standing = next.map(|stored| {
                let name = tokens.name(cause, stored);
                let owner = match cause {
                    Cause::Client(host) => host,
                    Cause::Server | Cause::Fault => 5,
                };
                (at, stored, owner, name)
            });
        }
        Ok(())
    }

    /// Signs above the lanes: releases, deaths, cuts, panics.
    fn write_marks(&self, out: &mut String) -> fmt::Result {
        for entry in self
            .history
            .entries
            .iter()
            .filter(|entry| entry.at <= self.end)
        {
            let (host, task, sign, class) = match &entry.what {
                What::Invoke { actor, call, .. } => {
                    let sign = match call {
                        Call::Release { .. } => "release",
                        Call::Drop { .. } => "drop",
                        Call::Renew { .. } => "renew",
                        Call::Access { .. } => "access",
                        Call::Try { .. }
                        | Call::Acquire { .. }
                        | Call::Admit
                        | Call::CountDown
                        | Call::Await { .. } => continue,
                    };
                    (actor.host, Some(actor.task), sign, "sign")
                }
                What::Crash { host } => (*host, None, "✝ dies", "sign alarm"),
                What::Panic { host, .. } => (*host, None, "✝ panics", "sign alarm"),
                What::Cut { host, .. } => (*host, None, "✂ cut", "sign alarm"),
                _ => continue,
            };
            let concerns =
                |actor: &&Actor| actor.host == host && task.is_none_or(|task| task == actor.task);
            for &lane in self.clients.iter().filter(concerns) {
                self.write_mark(out, entry.at, lane, sign, class)?;
            }
        }
        Ok(())
    }

    fn write_mark(
        &self,
        out: &mut String,
        at: Duration,
        lane: Actor,
        sign: &str,
        class: &str,
    ) -> fmt::Result {
        let (x, y) = (self.x(at), self.y(lane));
        let (anchor, text_x) = if x > WIDTH - 60.0 {
            ("end", x - 3.0)
        } else {
            ("start", x + 3.0)
        };
        write!(
            out,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/>\
             <text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{text_x:.1}\" y=\"{}\">\
             {sign}</text>",
            y,
            y + 40.0,
            y + 7.0
        )
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

const STYLE: &str = include_str!("style.css");
