//! Reports as plain text: the verdict table, and a counterexample in lanes.

use super::{Lane, notes, rows, time, verdict};
use crate::{
    checker::Property,
    history::{Actor, History, PROBE_HOST, What},
    runner::{Counterexample, Trial},
    subject::Expected,
    verdict::Cell,
};
use std::{
    collections::BTreeSet,
    io::{self, Write},
};

/// Writes the verdict table.
///
/// # Errors
/// If `out` does.
pub fn table(out: &mut impl Write, trials: &[Trial]) -> io::Result<()> {
    let columns: Vec<Property> = Property::ALL.into_iter().collect();
    let width = trials
        .iter()
        .map(|trial| trial.name.len())
        .max()
        .unwrap_or(0)
        .max(7);
    write!(out, "  {:width$}  {:>6}", "lock", "runs")?;
    for property in &columns {
        write!(out, "  {:>8}", property.id())?;
    }
    writeln!(out, "  verdict")?;
    for trial in trials {
        write!(out, "  {:width$}  {:>6}", trial.name, trial.coverage.runs)?;
        for &property in &columns {
            write!(out, "  {:>8}", mark(&trial.total(property)))?;
        }
        let sign = if trial.as_expected() { "ok" } else { "!!" };
        writeln!(out, "  {sign} {}", verdict(trial))?;
    }
    writeln!(out)?;
    for property in columns {
        writeln!(
            out,
            "  {:>4}  {}: {}",
            property.id(),
            property.title(),
            property.statement()
        )?;
    }
    Ok(())
}

/// A cell of the table.
pub(crate) fn mark(cell: &Cell) -> String {
    if cell.broken > 0 {
        format!("BROKEN {}", cell.broken)
    } else if cell.outside > 0 {
        format!("({})", cell.outside)
    } else if cell.held > 0 {
        "holds".to_owned()
    } else if cell.unknown > 0 {
        "?".to_owned()
    } else {
        "-".to_owned()
    }
}

/// Writes the rows of the matrix in which something broke.
///
/// # Errors
/// If `out` does.
pub fn broken_rows(out: &mut impl Write, trial: &Trial) -> io::Result<()> {
    for row in rows() {
        let cells = Property::ALL.into_iter().filter_map(|property| {
            let cell = trial.cells.get(&(row, property))?;
            (cell.broken > 0).then(|| format!("{} {}x", property.id(), cell.broken))
        });
        let cells: Vec<String> = cells.collect();
        if !cells.is_empty() {
            writeln!(out, "    {row}: {}", cells.join(", "))?;
        }
    }
    Ok(())
}

/// Writes what was seen, and what was not.
///
/// # Errors
/// If `out` does.
pub fn coverage(out: &mut impl Write, trials: &[Trial]) -> io::Result<()> {
    let mut total = crate::coverage::Coverage::default();
    trials.iter().for_each(|trial| total.add(&trial.coverage));
    let percent = |count: u64| 100.0 * count as f64 / total.runs.max(1) as f64;
    let sights: Vec<String> = total
        .sights()
        .map(|(name, count)| format!("{name} {:.0} %", percent(count)))
        .collect();
    writeln!(out, "  seen in {} runs: {}", total.runs, sights.join(", "))
}

/// Writes the counterexamples of a subject, the first one in full.
///
/// # Errors
/// If `out` does.
pub fn counterexamples(out: &mut impl Write, trial: &Trial) -> io::Result<()> {
    for (index, example) in trial.counterexamples.iter().enumerate() {
        if index == 0 {
            counterexample(out, trial, example)?;
        } else {
            heading(out, trial, example)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn heading(out: &mut impl Write, trial: &Trial, example: &Counterexample) -> io::Result<()> {
    let Counterexample {
        property,
        seed,
        scenario,
        judged,
        ..
    } = example;
    let steps = scenario.events.len();
    let verb = match trial.expected {
        Expected::Convicted(_) => "is convicted of",
        Expected::Sound => "breaks",
    };
    writeln!(
        out,
        "  {} {verb} {property}: seed {seed}, {steps} steps",
        trial.name
    )?;
    match judged.witness(*property) {
        Some(witness) => writeln!(out, "    {}", witness.message),
        None => Ok(()),
    }
}

/// Writes a counterexample: its script and its lanes.
///
/// # Errors
/// If `out` does.
pub fn counterexample(
    out: &mut impl Write,
    trial: &Trial,
    example: &Counterexample,
) -> io::Result<()> {
    let Counterexample {
        scenario, judged, ..
    } = example;
    heading(out, trial, example)?;
    for event in &scenario.events {
        let at = time(event.at());
        writeln!(out, "    {at:>10}  {}", event.happening)?;
    }
    writeln!(out)?;
    lanes(out, &judged.run.history)
}

/// Writes a history in lanes: one column per actor and one for the server, time downwards.
/// A bar marks belief; two bars in a line mean that two believe.
///
/// # Errors
/// If `out` does.
pub fn lanes(out: &mut impl Write, history: &History) -> io::Result<()> {
    let mut notes = notes(history);
    notes.retain(|note| {
        !matches!(
            history.entries[note.at.place - 1].what,
            What::Attempt { .. }
        )
    });
    let lanes: BTreeSet<Lane> = notes
        .iter()
        .map(|note| note.lane)
        .filter(|lane| {
            !matches!(
                lane,
                Lane::Client(Actor {
                    host: PROBE_HOST,
                    ..
                })
            )
        })
        .collect();
    let lanes: Vec<Lane> = lanes.into_iter().collect();
    let width = |lane: &Lane| {
        let mine = notes.iter().filter(|note| note.lane == *lane);
        mine.map(|note| note.text.chars().count())
            .max()
            .unwrap_or(0)
            .clamp(6, 40)
    };
    let widths: Vec<usize> = lanes.iter().map(width).collect();
    let beliefs = history.beliefs();
    let title = |lane: &Lane| match lane {
        Lane::Client(actor) => actor.to_string(),
        Lane::Server => "server stores".to_owned(),
    };
    let mut head = format!("    {:>10} ", "");
    for (lane, width) in lanes.iter().zip(&widths) {
        head.push_str(&format!("   {:width$}", title(lane)));
    }
    writeln!(out, "{}", head.trim_end())?;
    for (index, note) in notes.iter().enumerate() {
        if !lanes.contains(&note.lane) {
            break;
        }
        let repeated = index > 0 && notes[index - 1].at.at == note.at.at;
        let at = if repeated {
            String::new()
        } else {
            time(note.at.at)
        };
        let mut line = format!("    {at:>10} ");
        for (lane, width) in lanes.iter().zip(&widths) {
            let believes = |actor: &Actor| {
                let mut theirs = beliefs.iter().filter(|belief| belief.actor == *actor);
                theirs.any(|belief| belief.from <= note.at && note.at < belief.to)
            };
            let bar = match lane {
                Lane::Client(actor) if believes(actor) => '┃',
                Lane::Client(_) | Lane::Server => ' ',
            };
            let text = if note.lane == *lane {
                note.text.as_str()
            } else {
                ""
            };
            let text: String = text.chars().take(*width).collect();
            line.push_str(&format!(" {bar} {text:width$}"));
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
