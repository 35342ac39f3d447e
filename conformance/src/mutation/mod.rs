//! Mutation tests of locks: they change the scripts of a lock, one small mistake at a time, and the suite has
//! to notice each. A mistake that the suite does not notice shows a gap in the properties or scenarios, or
//! has no effect.
//!
//! The lock itself stays as it is. Its requests are changed on their way to the server.

mod equivalent;
mod intercept;
mod lua;

use crate::{
    backend::{Backend, Double},
    checker::Property,
    plan::{Plan, Source},
    runner::{ScenarioSource, accused},
    simulation::RunError,
    subject::DynSubject,
};
pub use equivalent::{EQUIVALENTS, Equivalent, reason, stale};
use intercept::Intercept;
pub use lua::{Change, changes, parts};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Number of seeds that are played to find the scripts that a lock sends.
const SEEN_IN: u64 = 96;

/// Number of seeds that are played with one lock before the next lock's turn.
const ROUND: u64 = 250;

/// A script, and the locks that send it.
#[derive(Clone, Debug)]
pub struct Script {
    /// Text of the script.
    pub text: String,
    /// Indices in the list of locks.
    pub locks: Vec<usize>,
}

impl Script {
    /// Returns true if a comment of the script starts with `title`.
    fn says(&self, title: &str) -> bool {
        let mut lines = self.text.lines();
        title.is_empty()
            || lines.any(|line| {
                line.strip_prefix("-- ")
                    .is_some_and(|it| it.starts_with(title))
            })
    }

    /// Returns the title of the script: the first line of the last comment that describes a reply, or of the
    /// first comment.
    #[must_use]
    pub fn title(&self) -> &str {
        let mut blocks: Vec<Vec<&str>> = vec![Vec::new()];
        for line in self.text.lines() {
            match (line.strip_prefix("--"), blocks.last_mut()) {
                (Some(comment), Some(block)) => block.push(comment.trim()),
                (None, Some(block)) if !block.is_empty() => blocks.push(Vec::new()),
                (..) => {}
            }
        }
        let replies = |block: &&Vec<&str>| block.iter().any(|it| it.starts_with("Reply:"));
        let block = blocks.iter().rev().find(replies).or_else(|| blocks.first());
        let first = block.and_then(|block| block.first());
        first.map_or("a script without a comment", |it| it.trim_end_matches('.'))
    }
}

/// One mistake. A mistake in a shared part is in all scripts that contain the part.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The mistake in each script, by the script's index. Never empty.
    pub changes: Vec<(usize, Change)>,
}

impl Mutant {
    /// Returns the first script with the mistake.
    #[must_use]
    pub fn first(&self) -> Option<(usize, &Change)> {
        self.changes
            .first()
            .map(|(script, change)| (*script, change))
    }
}

/// Returns all mutants of the scripts.
#[must_use]
pub fn mutants(scripts: &[Script]) -> Vec<Mutant> {
    let mut mutants: Vec<Mutant> = Vec::new();
    let mut known: BTreeMap<(&str, usize, String), usize> = BTreeMap::new();
    for (place, script) in scripts.iter().enumerate() {
        let parts = parts(&script.text);
        for change in changes(&script.text) {
            let part = parts.iter().find(|part| part.contains(&change.at));
            let part = part.cloned().unwrap_or_default();
            let key = (
                &script.text[part.clone()],
                change.at - part.start,
                change.what.clone(),
            );
            let mutant = *known.entry(key).or_insert_with(|| {
                mutants.push(Mutant { changes: vec![] });
                mutants.len() - 1
            });
            mutants[mutant].changes.push((place, change));
        }
    }
    mutants
}

/// The finding that noticed a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    /// Index of the convicted lock.
    pub lock: usize,
    /// Source of the scenario.
    pub source: ScenarioSource,
    /// Broken property.
    pub property: Property,
}

/// Returns all scripts that the locks send, in the order of the locks and of first use.
///
/// # Errors
/// If a scenario cannot be played.
pub fn scripts(locks: &[Box<dyn DynSubject>]) -> Result<Vec<Script>, RunError> {
    let mut scripts: Vec<Script> = Vec::new();
    for (place, lock) in locks.iter().enumerate() {
        for text in sent_by(&**lock)? {
            match scripts.iter_mut().find(|script| script.text == text) {
                Some(known) => known.locks.push(place),
                None => scripts.push(Script {
                    text,
                    locks: vec![place],
                }),
            }
        }
    }
    Ok(scripts)
}

fn sent_by(lock: &dyn DynSubject) -> Result<Vec<String>, RunError> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let backend = Intercept::new(Double, move |request| {
        if let Some(text) = body(request).and_then(|body| String::from_utf8(body.clone()).ok()) {
            let mut seen = notes.lock().unwrap_or_else(PoisonError::into_inner);
            if !seen.contains(&text) {
                seen.push(text);
            }
        }
    });
    let source = Source::of(lock, &backend, &Plan::quick(&backend));
    for seed in 0..SEEN_IN {
        lock.play(&backend, &source.scenario(seed))?;
    }
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut seen))
}

/// Returns the script in a request, if there is one.
fn body(request: &mut [Vec<u8>]) -> Option<&mut Vec<u8>> {
    let is = |at: usize, word: &str| {
        let said = request.get(at);
        said.is_some_and(|said| said.eq_ignore_ascii_case(word.as_bytes()))
    };
    let at = if is(0, "EVAL") {
        1
    } else if is(0, "SCRIPT") && is(1, "LOAD") {
        2
    } else {
        return None;
    };
    request.get_mut(at)
}

/// Plays scenarios with each mutant, on every lock that sends the script, until the suite notices the mutant
/// or the seeds of the plan are used up. Returns the results in the order of the mutants; calls `progress`
/// after each.
///
/// # Errors
/// If a scenario cannot be played.
pub fn hunt(
    locks: &[Box<dyn DynSubject>],
    scripts: &[Script],
    mutants: &[Mutant],
    plan: &Plan,
    progress: &(dyn Fn() + Sync),
) -> Result<Vec<Option<Killed>>, RunError> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = BTreeMap::new();
        while let Some((place, mutant)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            mutants.get(place).map(|mutant| (place, mutant))
        } {
            found.insert(place, kill(locks, scripts, mutant, plan)?);
            progress();
        }
        Ok(found)
    };
    let found = thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| match worker.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect::<Result<Vec<_>, RunError>>()
    })?;
    let found: BTreeMap<usize, Option<Killed>> = found.into_iter().flatten().collect();
    Ok(found.into_values().collect())
}

fn kill(
    locks: &[Box<dyn DynSubject>],
    scripts: &[Script],
    mutant: &Mutant,
    plan: &Plan,
) -> Result<Option<Killed>, RunError> {
    let changed = mutant.changes.iter();
    let backend = with(changed.map(|(script, change)| (&*scripts[*script].text, &*change.text)));
    let senders = mutant
        .changes
        .iter()
        .flat_map(|(script, _)| &scripts[*script].locks);
    let senders: BTreeSet<usize> = senders.copied().collect();
    for plan in rounds(plan) {
        for &lock in &senders {
            if let Some((source, property)) = accused(&*locks[lock], &backend, &plan)? {
                return Ok(Some(Killed {
                    lock,
                    source,
                    property,
                }));
            }
        }
    }
    Ok(None)
}

/// Splits the plan into rounds, so that every lock gets a turn early: one of the locks shows most mutants
/// soon.
fn rounds(plan: &Plan) -> impl Iterator<Item = Plan> {
    let by_hand = Plan {
        seeds: 0..0,
        ..plan.clone()
    };
    let seeds = plan.seeds.clone();
    let starts = seeds.clone().step_by(usize::try_from(ROUND).unwrap_or(1));
    let parts = starts.map(move |from| Plan {
        seeds: from..seeds.end.min(from + ROUND),
        fixed: false,
        ..plan.clone()
    });
    plan.fixed.then_some(by_hand).into_iter().chain(parts)
}

/// Makes a double that receives other scripts in place of some.
fn with<'a>(changed: impl Iterator<Item = (&'a str, &'a str)>) -> impl Backend {
    let sha = |text: &str| redis::Script::new(text).get_hash().as_bytes().to_vec();
    let (mut bodies, mut digests) = (BTreeMap::new(), BTreeMap::new());
    for (original, mutated) in changed {
        bodies.insert(original.as_bytes().to_vec(), mutated.as_bytes().to_vec());
        digests.insert(sha(original), sha(mutated));
    }
    Intercept::new(Double, move |request| {
        if let Some(body) = body(request) {
            if let Some(mutated) = bodies.get(body) {
                body.clone_from(mutated);
            }
        } else if let [name, digest, ..] = request
            && name.eq_ignore_ascii_case(b"EVALSHA")
            && let Some(mutated) = digests.get(digest)
        {
            digest.clone_from(mutated);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::subjects;

    fn lock(name: &str) -> Vec<Box<dyn DynSubject>> {
        let rows = subjects().map(|row| (row.make)());
        rows.filter(|lock| lock.name() == name).collect()
    }

    fn fate(change: impl Fn(&str) -> String) -> Option<Killed> {
        let locks = lock("mutex");
        let scripts = scripts(&locks).unwrap();
        let at = |script: &Script| script.text != change(&script.text);
        let script = scripts.iter().position(at).unwrap();
        let text = change(&scripts[script].text);
        let change = Change {
            line: 1,
            at: 0,
            what: String::new(),
            text,
        };
        let changes = vec![(script, change)];
        let mutants = [Mutant { changes }];
        let plan = Plan {
            seeds: 0..400,
            ..Plan::quick(&Double)
        };
        let [found] = &hunt(&locks, &scripts, &mutants, &plan, &|| {}).unwrap()[..] else {
            panic!("one answer for one mutant")
        };
        found.clone()
    }

    #[test]
    fn a_mistake_is_noticed_and_a_changed_comment_is_not() {
        let stolen = fate(|text| text.replacen("~= ARGV[1]", "== ARGV[1]", 1));
        assert!(stolen.is_some());
        assert_eq!(fate(|text| format!("-- Otherwise.\n{text}")), None);
    }

    #[test]
    fn every_equivalent_mutant_still_exists() {
        let rows = crate::subject::SUBJECTS.iter();
        let sound = rows.filter(|row| row.expected == crate::subject::Expected::Sound);
        let locks: Vec<_> = sound.map(|row| (row.make)()).collect();
        let scripts = scripts(&locks).unwrap();
        let mutants = mutants(&scripts);
        let gone: Vec<_> = stale(&scripts, &mutants, true).collect();
        assert!(gone.is_empty(), "{gone:#?}");
        assert!(mutants.iter().any(|it| reason(&scripts, it).is_some()));
        let without: Vec<Mutant> = mutants
            .into_iter()
            .filter(|it| reason(&scripts, it).is_none())
            .collect();
        assert_eq!(stale(&scripts, &without, false).count(), EQUIVALENTS.len());
        assert_eq!(stale(&[], &[], true).count(), EQUIVALENTS.len());
        assert_eq!(stale(&[], &[], false).count(), 0);
    }

    #[test]
    fn a_mistake_in_a_part_of_several_scripts_is_one_mistake() {
        let script = |text: &str| Script {
            text: text.to_owned(),
            locks: vec![],
        };
        let clock = "-- A clock.\nlocal function now()\n  return 1\nend\n";
        let own = |own: &str| script(&format!("{clock}-- {own}.\nif now() > 2 then\nend\n"));
        let scripts = [own("Takes"), own("Gives"), script("-- Else.\nreturn 1")];
        let mutants = mutants(&scripts);
        let shared: Vec<&Mutant> = mutants.iter().filter(|it| it.changes.len() == 2).collect();
        let [shared] = &shared[..] else {
            panic!("{shared:?}")
        };
        assert!(shared.changes.iter().all(|(_, change)| change.line == 3));
        assert_eq!(shared.first().map(|(script, _)| script), Some(0));
        let of = |place: usize| {
            let of = mutants
                .iter()
                .filter(|it| it.first().is_some_and(|(first, _)| first == place));
            of.count()
        };
        assert_eq!((of(0), of(1), of(2)), (6, 5, 1));
    }

    #[test]
    fn a_title_comes_from_the_comment_about_the_reply() {
        let titled = |text: &str| {
            let text = text.to_owned();
            let script = Script {
                text,
                locks: vec![],
            };
            script.title().to_owned()
        };
        assert_eq!(
            titled("-- A clock.\nlocal x\n-- Takes it.\n-- Reply: 1.\nreturn 1"),
            "Takes it"
        );
        assert_eq!(titled("-- Of no reply.\nreturn 1\n-- More."), "Of no reply");
        assert_eq!(titled("return 1"), "a script without a comment");
    }

    #[test]
    fn each_script_of_a_lock_is_found_once() {
        let locks = lock("mutex");
        let scripts = scripts(&locks).unwrap();
        assert!(scripts.len() >= 3, "{scripts:?}");
        for script in &scripts {
            assert_eq!(script.locks, [0]);
            assert!(!changes(&script.text).is_empty(), "{}", script.title());
        }
    }
}
