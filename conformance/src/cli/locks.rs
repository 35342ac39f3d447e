//! `redouble-check`: judges locks.

use super::{
    Fallible, list,
    place::Where,
    progress::Bars,
    reports::{FEW, Reports},
    select::{self, Listed},
    values::{Shard, Times, duration},
};
use clap::Args;
use redouble_conformance::{
    backend::Backend,
    report::{Group, shown, terminal},
    runner::{CONVICTION, Outcome, Plan, SURVEY, Trial, run_trial},
    subject::Expected,
};
use std::{
    io::Write,
    time::{Duration, Instant},
};

#[derive(Args)]
pub(super) struct Locks {
    /// Judge only these locks, by name or id (see --list); `*` stands for any number of characters, `?` for one.
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    lock: Vec<String>,
    /// Play only scenarios with one of these faults and no other (see --list).
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    fault: Vec<String>,
    /// Judge only these properties, by id or name, as in P1 or "lease exclusion".
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',')]
    property: Vec<String>,
    #[command(flatten)]
    place: Where,
    /// Play only the fixed scenarios, which are written by hand and the same on every backend (see --list).
    #[arg(long, conflicts_with_all = ["seeds", "seed", "shard"])]
    fixed: bool,
    /// Number of seeds per lock [default: 2000; 600 for the locks of redouble-lock if all locks are checked; 4000 for a lock that is expected to
    /// be convicted; 16 on a real server].
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// The first seed; alone, only this one.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Try only the i-th of n equal parts of the seeds.
    #[arg(long, value_name = "i/n")]
    shard: Option<Shard>,
    /// Stop after this time, as in 90s or 15m; without --seeds, try as many seeds as it allows.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    #[command(flatten)]
    times: Times,
    /// Stop at the first verdict that is not the expected one.
    #[arg(long)]
    fail_fast: bool,
    /// List the locks, faults, fixed scenarios and properties, and do nothing else.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    reports: Reports,
}

pub(super) fn run(args: &Locks, out: &mut impl Write) -> Fallible<bool> {
    let locks = select::locks(&args.lock)?;
    if args.list {
        list::all(&locks, out)?;
        return Ok(true);
    }
    let backend = args.place.open()?;
    let plan = plan(args, &*backend)?;
    writeln!(out, "{}\n", introduction(&locks, &*backend, &plan, args))?;
    let trials = judge_all(&locks, &*backend, &plan, args, out)?;
    writeln!(out)?;
    for trial in &trials {
        terminal::disagreements(out, trial)?;
        if trial.outcome() == Outcome::Differs || locks.len() <= FEW {
            terminal::counterexamples(out, trial)?;
        }
    }
    terminal::summary(out, &trials)?;
    let untried = locks.len() - trials.len();
    if untried > 0 {
        writeln!(out, "  {untried} of {} locks were not tried", locks.len())?;
    }
    let seen = has_seen_all(&trials, is_filtered(args), out)?;
    args.reports.write(&trials, out)?;
    let as_expected = trials
        .iter()
        .all(|trial| trial.outcome() != Outcome::Differs);
    Ok(as_expected && seen)
}

fn plan(args: &Locks, backend: &dyn Backend) -> Fallible<Plan> {
    let quick = Plan::quick(backend);
    let count = match (args.seeds, args.seed, args.time) {
        _ if args.fixed => 0,
        (Some(count), ..) => count,
        (None, Some(_), _) => 1,
        (None, None, Some(_)) => u64::MAX,
        (None, None, None) => quick.seeds.end,
    };
    let first = args.seed.unwrap_or(0);
    let chosen = args.seed.is_some() || args.shard.is_some();
    let seeds = first..first.saturating_add(count);
    Ok(Plan {
        seeds: args
            .shard
            .map_or_else(|| seeds.clone(), |shard| shard.of(&seeds)),
        faults: select::faults(&args.fault)?,
        properties: select::properties(&args.property)?,
        fixed: args.fixed || !backend.virtual_time() && !chosen,
        timing: args.times.timing(),
        fail_fast: args.fail_fast,
        ..quick
    })
}

/// True if the options select less than a full run.
fn is_filtered(args: &Locks) -> bool {
    let chosen = !args.lock.is_empty() || !args.fault.is_empty() || args.fixed;
    let fewer = args.seeds.is_some() || args.seed.is_some() || args.shard.is_some();
    chosen || fewer || args.time.is_some() || args.fail_fast
}

fn introduction(locks: &[Listed], backend: &dyn Backend, plan: &Plan, args: &Locks) -> String {
    let count = match locks.len() {
        1 => "one lock".to_owned(),
        count => format!("{count} locks"),
    };
    let seeds = match (plan.seeds.end, args.time) {
        (u64::MAX, Some(_)) => format!("seeds from {}", plan.seeds.start),
        (end, _) => format!("seeds {} to {}", plan.seeds.start, end.saturating_sub(1)),
    };
    let seeds = match (plan.fixed, args.fixed) {
        (_, true) => "the fixed scenarios".to_owned(),
        (true, false) => format!("the fixed scenarios and {seeds}"),
        (false, false) => seeds,
    };
    let mut text = format!("{count} on {}, {seeds}", backend.name());
    if !plan.faults.is_empty() {
        text.push_str(&format!("; faults: {}", plan.faults.join(", ")));
    }
    if !plan.properties.is_empty() {
        let ids: Vec<&str> = plan.properties.iter().map(|it| it.id()).collect();
        text.push_str(&format!("; properties: {}", ids.join(", ")));
    }
    text
}

/// Tries one lock after the other, and writes the line of each as soon as it is known.
fn judge_all(
    locks: &[Listed],
    backend: &dyn Backend,
    plan: &Plan,
    args: &Locks,
    out: &mut impl Write,
) -> Fallible<Vec<Trial>> {
    let widths = locks.iter().map(|lock| shown(lock.id).len());
    let width = widths.max().unwrap_or(0);
    let end = args.time.map(|time| Instant::now() + time);
    let bars = Bars::new(locks.len());
    let count = plan.seeds.end.saturating_sub(plan.seeds.start);
    let count = Some(count).filter(|_| plan.seeds.end < u64::MAX);
    let (mut trials, mut group): (Vec<Trial>, Option<Group>) = (Vec::new(), None);
    for (place, lock) in locks.iter().enumerate() {
        let by_default =
            args.seeds.is_none() && args.seed.is_none() && args.time.is_none() && !args.fixed;
        let to_convict = matches!(lock.row.expected, Expected::Convicted(_));
        let by_default = by_default && args.shard.is_none() && backend.virtual_time();
        let of_all = args.lock.is_empty() && lock.group == Group::Ours;
        let seeds = match (by_default, to_convict, of_all) {
            (true, true, _) => 0..CONVICTION,
            (true, false, true) => 0..SURVEY,
            (true, false, false) | (false, _, _) => plan.seeds.clone(),
        };
        let plan = Plan {
            seeds,
            until: end.map(|end| share(end, locks.len() - place)),
            ..plan.clone()
        };
        if plan.is_over() && !trials.is_empty() {
            break;
        }
        let bar = bars.lock(lock.row.name, count);
        let subject = (lock.row.make)();
        let trial = run_trial(&*subject, lock.row.expected, backend, &plan, &|n| {
            bar.inc(n)
        });
        let line = trial.as_ref().map(|trial| terminal::line(trial, width));
        bars.done(&bar, || match line {
            Ok(line) if group.replace(lock.group) != Some(lock.group) => {
                let (title, introduction) = (lock.group.title(), lock.group.introduction());
                writeln!(out, "{title}: {introduction}\n{line}")
            }
            Ok(line) => writeln!(out, "{line}"),
            Err(_) => Ok(()),
        })?;
        out.flush()?;
        trials.push(trial?);
        let differs = |trial: &Trial| trial.outcome() == Outcome::Differs;
        if args.fail_fast && trials.last().is_some_and(differs) {
            break;
        }
    }
    bars.finish();
    Ok(trials)
}

/// The time at which a lock has used its share of the time that is left for this many locks.
fn share(end: Instant, locks: usize) -> Instant {
    let now = Instant::now();
    let left = end.saturating_duration_since(now);
    now + left / u32::try_from(locks.max(1)).unwrap_or(u32::MAX)
}

/// Checks that the runs have covered each situation often enough; prints the missed ones.
fn has_seen_all(trials: &[Trial], filtered: bool, out: &mut impl Write) -> Fallible<bool> {
    let mut all = true;
    for trial in trials {
        let missed: Vec<String> = trial.missed().iter().map(ToString::to_string).collect();
        if !missed.is_empty() {
            all = false;
            let (name, missed) = (shown(trial.name), missed.join("; "));
            let tested = if filtered { "tested" } else { "TESTED" };
            writeln!(out, "  these runs {tested} {name} too little: {missed}")?;
        }
    }
    Ok(all || filtered)
}
