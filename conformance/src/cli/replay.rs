//! `redouble-check replay`: one scenario, step by step.

use super::{Fallible, place::Where, select, values::Times, write_file};
use clap::Args;
use redouble_conformance::{
    checker::{Finding, Property},
    report::{Saved, html, shown, terminal},
    runner::{self, Judged, generator, judge, timing, trial_of},
    scenario::{Scenario, fixed, generate::Timing},
    subject::DynSubject,
};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Plays one scenario, shows what happened, step by step, and the finding of each property.
///
/// Exit code 0: every promise held. 1: one did not. 2: it could not be played.
#[derive(Args)]
pub(super) struct Replay {
    /// A saved scenario; - reads it from standard input.
    #[arg(required_unless_present_any = ["seed", "fixed"])]
    file: Option<PathBuf>,
    /// The scenario of this seed instead of a file.
    #[arg(long, value_name = "S", requires = "lock", conflicts_with = "file")]
    seed: Option<u64>,
    /// With --seed: the fault of the earlier run, if it ran with --fault.
    #[arg(long, value_name = "NAME", requires = "seed")]
    fault: Option<String>,
    #[command(flatten)]
    times: Times,
    /// The lock to play it with, by name or id [default: the lock in the file].
    #[arg(long, value_name = "NAME")]
    lock: Option<String>,
    /// A fixed scenario instead of a file, by its name (see --list).
    #[arg(long, value_name = "NAME", requires = "lock", conflicts_with_all = ["file", "seed"])]
    fixed: Option<String>,
    /// Also write an HTML page with the timeline of this run, if it breaks a promise.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
}

pub(super) fn run(args: &Replay, out: &mut impl Write) -> Fallible<bool> {
    let saved = args.file.as_deref().map(read).transpose()?;
    let saved_name = saved.as_ref().map(|it| &it.lock);
    let name = args.lock.as_ref().or(saved_name);
    let locks = select::locks(name.map_or(&[], std::slice::from_ref))?;
    let [lock] = &*locks else {
        return Err("one lock is needed".into());
    };
    let subject = (lock.row.make)();
    let backend = args.place.open()?;
    let times = timing(&*subject, &*backend, args.times.timing());
    let (scenario, property) = match (saved, args.seed, &args.fixed) {
        (Some(saved), ..) => (saved.scenario, Some(saved.property)),
        (None, Some(seed), _) => {
            let fault = args.fault.as_ref();
            (generated(&*subject, times, fault, seed)?, None)
        }
        (None, None, Some(name)) => (by_name(&*subject, name)?, None),
        (None, None, None) => {
            return Err("a file, a seed or a fixed scenario is needed".into());
        }
    };
    let scenario = backend.lease_ms().map_or_else(
        || scenario.clone(),
        |lease_ms| scenario.snapped().scaled(lease_ms),
    );
    let judged = judge(&*subject, &*backend, &scenario)?;
    writeln!(out, "{} on {}\n", shown(lock.id), backend.name())?;
    for event in &scenario.events {
        let at = format!("{:.3} s", event.at().as_secs_f64());
        writeln!(out, "    {at:>10}  {}", event.happening)?;
    }
    writeln!(out)?;
    let first = property.or_else(|| broken(&judged).next());
    let witness = first.and_then(|property| judged.witness(property));
    terminal::lanes(out, &judged.run.history, witness)?;
    writeln!(out)?;
    if let Some(path) = &args.report {
        let trial = trial_of(&*subject, &*backend, &scenario, &judged);
        write_file(path, &html::page(&[trial]))?;
        writeln!(out, "  report: {}\n", path.display())?;
    }
    findings(&*subject, &scenario, &judged, out)
}

fn read(path: &Path) -> Fallible<Saved> {
    let text = if path == Path::new("-") {
        io::read_to_string(io::stdin())
    } else {
        fs::read_to_string(path)
    };
    let shown = path.display();
    let text = text.map_err(|error| format!("cannot read {shown}: {error}"))?;
    let saved = Saved::from_json(&text);
    Ok(saved.map_err(|error| format!("{shown} is not a saved scenario: {error}"))?)
}

fn generated(
    subject: &dyn DynSubject,
    timing: Timing,
    fault: Option<&String>,
    seed: u64,
) -> Fallible<Scenario> {
    let faults = select::faults(fault.map_or(&[], std::slice::from_ref))?;
    let generator = generator(subject.promises(), faults.first().map(String::as_str));
    if generator.is_empty() {
        return Err("this fault cannot strike on the lock's servers".into());
    }
    Ok(generator.timed(timing).scenario(seed))
}

fn by_name(subject: &dyn DynSubject, name: &str) -> Fallible<Scenario> {
    let fixed = fixed::all().find(|fixed| fixed.name == name);
    let fixed = fixed.ok_or_else(|| format!("no scenario is called {name:?} (see --list)"))?;
    let scenario = fixed.scenario(subject.promises());
    Ok(scenario.ok_or("this scenario is not written for such a lock")?)
}

fn broken(judged: &Judged) -> impl Iterator<Item = Property> {
    let findings = judged.findings.iter();
    findings.filter_map(|(property, finding)| finding.witness().map(|_| *property))
}

/// Writes the finding of each property; true if every promise held.
fn findings(
    subject: &dyn DynSubject,
    scenario: &Scenario,
    judged: &Judged,
    out: &mut impl Write,
) -> Fallible<bool> {
    let mut held = true;
    let blamed = runner::broken(subject.promises(), scenario, judged);
    for (property, finding) in &judged.findings {
        let says = match finding {
            Finding::Valid => "holds".to_owned(),
            Finding::Unknown(why) => format!("not judged: {why}"),
            Finding::Violation(witness) => {
                let blamed = blamed.contains(property);
                held &= !blamed;
                let word = if blamed {
                    "BROKEN"
                } else {
                    "broken, outside its guarantee"
                };
                format!("{word}: {}", witness.message)
            }
        };
        writeln!(out, "  {property}: {says}")?;
    }
    Ok(held)
}
