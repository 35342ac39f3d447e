//! `redouble-check mutants`: makes small mistakes in the scripts of locks, and lists those that the suite does not notice.

use super::{Fallible, progress, select};
use clap::Args;
use redouble_conformance::{
    backend::Double,
    mutation::{Killed, Mutant, Script, hunt, mutants, reason, scripts, stale},
    report::Group,
    runner::{Plan, QUICK},
    subject::{DynSubject, Expected},
};
use std::io::Write;

pub(super) const HELP: &str = "\
Makes small mistakes in the scripts of locks, and lists those that the suite does not notice.

Each mutant changes a script in one place: another comparison, a number that is one too large, a call or
a condition left out. The command plays scenarios with it until a property breaks: the fixed scenarios,
then one seed after the other, with each lock that sends the script. The code of the lock stays as it is:
its script is changed on the way to the embedded double. Several scripts may begin with the same part; a
mutant of that part changes all of them.

A mutant that survives shows a gap of the suite, or makes no difference. Survivors are listed with their
lines. Mutants that are known to make no difference are listed with the reason and not counted. Functions
that a script does not call are not changed.

`cargo mutants` does the same for the Rust code of the locks; see .cargo/mutants.toml.

Exit code 0: enough mutants were noticed (--floor). 1: too few were. 2: wrong usage, or it could not run.";

#[derive(Args)]
pub(super) struct Mutants {
    /// Locks whose scripts are changed, by name or id, with `*` and `?` (see --list) [default: the locks of redouble-lock].
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    lock: Vec<String>,
    /// Number of seeds per lock after which a mutant counts as a survivor.
    #[arg(long, value_name = "N", default_value_t = QUICK)]
    seeds: u64,
    /// Number of mutants that are tried at the same time [default: one for each core].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Percentage of the mutants that the suite has to notice.
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u64).range(0..=100))]
    floor: u64,
}

pub(super) fn run(args: &Mutants, out: &mut impl Write) -> Fallible<bool> {
    let locks = chosen(&args.lock)?;
    let quick = Plan::quick(&Double);
    let plan = Plan {
        fixed: true,
        seeds: 0..args.seeds,
        jobs: args.jobs.unwrap_or(quick.jobs),
        ..quick
    };
    let scripts = scripts(&locks)?;
    let mutants = mutants(&scripts);
    if mutants.is_empty() {
        return Err("these locks send no scripts that can be changed".into());
    }
    let all_ours = args.lock.is_empty();
    if let Some(stale) = stale(&scripts, &mutants, all_ours).next() {
        return Err(format!("listed as equivalent, but there is no such mutant: {stale:?}").into());
    }
    let (same, mutants): (Vec<_>, Vec<_>) = mutants
        .into_iter()
        .map(|mutant| (reason(&scripts, &mutant), mutant))
        .partition(|(reason, _)| reason.is_some());
    let mutants: Vec<Mutant> = mutants.into_iter().map(|(_, mutant)| mutant).collect();
    writeln!(
        out,
        "{} mutants of {} scripts, the fixed scenarios and up to {} seeds for each lock; {} more make no difference",
        mutants.len(),
        scripts.len(),
        args.seeds,
        same.len(),
    )?;
    let count = u64::try_from(mutants.len()).unwrap_or(u64::MAX);
    let bar = progress::bar("mutants", Some(count));
    let found = hunt(&locks, &scripts, &mutants, &plan, &|| bar.inc(1));
    bar.finish_and_clear();
    let found = found?;
    let all: Vec<_> = mutants.iter().zip(&found).collect();
    for (place, script) in scripts.iter().enumerate() {
        let is_theirs = |mutant: &Mutant| mutant.first().is_some_and(|(first, _)| first == place);
        let theirs = all.iter().filter(|(mutant, _)| is_theirs(mutant));
        let theirs: Vec<_> = theirs.copied().collect();
        write_script(out, script, &theirs, &locks)?;
        let same = same.iter().filter(|(_, mutant)| is_theirs(mutant));
        for (why, mutant) in same.filter_map(|(why, mutant)| Some((why.as_ref()?, mutant))) {
            write_mutant(out, "no difference", script, mutant)?;
            writeln!(out, "      {why}")?;
        }
    }
    let killed = found.iter().flatten().count();
    let percent = killed * 100 / found.len().max(1);
    writeln!(
        out,
        "\n{killed} of {} mutants noticed, {percent} %",
        found.len()
    )?;
    Ok(percent as u64 >= args.floor)
}

fn chosen(patterns: &[String]) -> Fallible<Vec<Box<dyn DynSubject>>> {
    let mut listed = select::locks(patterns)?;
    if patterns.is_empty() {
        listed.retain(|it| it.group == Group::Ours);
    }
    if let Some(bad) = listed.iter().find(|it| it.row.expected != Expected::Sound) {
        let name = bad.id;
        return Err(format!(
            "{name} breaks its promise without a change, so its mutants prove nothing"
        )
        .into());
    }
    Ok(listed.into_iter().map(|it| (it.row.make)()).collect())
}

fn write_script(
    out: &mut impl Write,
    script: &Script,
    mutants: &[(&Mutant, &Option<Killed>)],
    locks: &[Box<dyn DynSubject>],
) -> Fallible<()> {
    let killed = mutants.iter().filter(|(_, fate)| fate.is_some()).count();
    let names: Vec<_> = script.locks.iter().map(|&at| locks[at].name()).collect();
    writeln!(out, "\n{} ({})", script.title(), names.join(", "))?;
    let slowest = mutants.iter().filter_map(|(_, fate)| fate.as_ref());
    let slowest = slowest.max_by_key(|killed| killed.source);
    let latest = slowest.map_or_else(String::new, |it| {
        format!(
            ", the last one by {} of {} in {}",
            it.property.id(),
            locks[it.lock].name(),
            it.source
        )
    });
    writeln!(out, "  {killed} of {} noticed{latest}", mutants.len())?;
    for (mutant, _) in mutants.iter().filter(|(_, fate)| fate.is_none()) {
        write_mutant(out, "survives", script, mutant)?;
    }
    Ok(())
}

fn write_mutant(
    out: &mut impl Write,
    fate: &str,
    script: &Script,
    mutant: &Mutant,
) -> Fallible<()> {
    let Some((_, change)) = mutant.first() else {
        return Ok(());
    };
    let line = script.text.lines().nth(change.line - 1).unwrap_or_default();
    let others = match mutant.changes.len() {
        0 | 1 => String::new(),
        count => format!(" (in {count} scripts)"),
    };
    writeln!(
        out,
        "  {fate}, line {}: {}{others}\n      {}",
        change.line,
        change.what,
        line.trim()
    )?;
    Ok(())
}
