//! The entry point for users who check a lock of their own in a test.

#[cfg(unix)]
use crate::subject::Plain;
use crate::{
    backend::{Backend, Double, DoubleOf, WallClock},
    checker::{Property, Witness},
    report::{Saved, html, shown, terminal},
    runner::{
        self, Counterexample, Judged, Plan, QUICK, Rehearsed, Trial, judge, rehearse, run_trial,
    },
    scenario::{Scenario, generate::Timing},
    subject::{Adapted, DynSubject, Expected, Promises, Row, Subject, Threads, subjects},
};
use redouble::Profile;
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Number of seeds of the quick tier for a lock in its plain form.
#[cfg(unix)]
const PLAIN: u64 = 200;

/// Number of seeds of the quick tier for a lock on threads.
const THREADS: u64 = 30;

/// Starts to check a lock.
///
/// See [`Subject`] for the methods of a lock.
pub fn check<S: Subject>(subject: S) -> Check {
    let path = std::any::type_name::<S>();
    let name = path.rsplit("::").next().unwrap_or(path);
    let is_plain = name.chars().all(|it| it.is_alphanumeric() || it == '_');
    // The source text of a value of another type is unknown.
    let is_unit = size_of::<S>() == 0 && is_plain;
    let code = if is_unit { name } else { "subject()" };
    Check::of(Box::new(Arc::new(subject)), format!("check({code})"))
}

/// Starts to check a listed lock, by its name or id: `check_listed("blind-del")`.
///
/// # Panics
/// If no listed lock has this name.
#[track_caller]
pub fn check_listed(name: &str) -> Check {
    let has_name = |row: &&Row| row.name == name || row.id() == name;
    match subjects().find(has_name) {
        Some(row) => Check::of((row.make)(), format!("check_listed({name:?})")),
        None => panic!("no listed lock is called {name:?}; `redouble-check --list` prints them"),
    }
}

/// A check with its settings.
#[must_use = "nothing runs until the check is asserted or asked for its trial"]
pub struct Check {
    subject: Box<dyn DynSubject>,
    backend: Box<dyn Backend>,
    seeds: std::ops::Range<u64>,
    report: Option<PathBuf>,
    scenario: Option<Scenario>,
    timing: Timing,
    /// Rust code that makes this check.
    code: String,
}

impl Check {
    fn of(subject: Box<dyn DynSubject>, code: String) -> Self {
        Self {
            subject,
            backend: Box::new(Double),
            seeds: 0..QUICK,
            report: None,
            scenario: None,
            timing: Timing::default(),
            code,
        }
    }

    /// Plays the quick tier: two thousand scenarios, in some seconds. This is the default.
    pub fn quick(mut self) -> Self {
        self.seeds = 0..QUICK;
        self
    }

    /// Plays unmodified code, which uses tokio's clock and tasks and connects over sockets: see [`Plain`].
    /// That takes some hundred times as long, so it plays two hundred scenarios by default.
    #[cfg(unix)]
    pub fn plain(mut self) -> Self {
        self.subject = Box::new(Plain::from(self.subject));
        self.code.push_str(".plain()");
        self.seeds = 0..PLAIN;
        self
    }

    /// Plays blocking code: on threads, in real time, with leases of 400 ms on the double. See [`Threads`].
    /// It plays thirty scenarios by default.
    pub fn threads(mut self) -> Self {
        self.subject = Box::new(Threads::from(self.subject));
        self.code.push_str(".threads()");
        self.backend = Box::new(WallClock::new(Double, 400));
        self.seeds = 0..THREADS;
        self
    }

    /// Plays all scenarios with this lease, and all times in proportion. Otherwise each scenario draws its lease, from 100 ms to 10
    /// minutes, and on their own its latency and its request timeout. Choose the form, [`plain`](Self::plain) or
    /// [`threads`](Self::threads), first. A saved scenario keeps its own lease.
    pub fn lease(mut self, lease: Duration) -> Self {
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX).max(1);
        if self.backend.virtual_time() {
            self.subject = Box::new(Adapted::leased(self.subject, lease_ms));
        } else {
            self.backend = Box::new(WallClock::new(Double, lease_ms));
        }
        self
    }

    /// Draws the lease of each scenario from 2 to 60 seconds, and puts all other times in proportion to it: for a lock that derives
    /// its own timeouts from the lease. A lease that [`lease`](Self::lease) or the form fixes stays fixed.
    pub fn proportional_times(mut self) -> Self {
        self.timing = Timing::DrawnLease;
        self
    }

    /// Plays these seeds.
    ///
    /// # Panics
    /// If there is no seed among them: a check that plays nothing proves nothing.
    #[track_caller]
    pub fn seeds(mut self, seeds: std::ops::Range<u64>) -> Self {
        assert!(
            !seeds.is_empty(),
            "no seeds: {} to {}",
            seeds.start,
            seeds.end
        );
        self.seeds = seeds;
        self
    }

    /// Plays only one saved scenario, such as the minimal one of an earlier failure.
    ///
    /// # Panics
    /// If the text is not the JSON form of a scenario.
    #[track_caller]
    pub fn scenario(mut self, json: &str) -> Self {
        let scenario = match Scenario::from_json(json) {
            Ok(scenario) => scenario,
            Err(error) => panic!("not a scenario: {error}"),
        };
        if let Some(why) = scenario.misfit(self.subject.promises()) {
            panic!("not a scenario of {}: {why}", self.subject.name());
        }
        self.scenario = Some(scenario);
        self
    }

    /// Plays on another backend than the embedded double.
    pub fn on(mut self, backend: impl Backend + 'static) -> Self {
        self.backend = Box::new(backend);
        self
    }

    /// Plays on embedded doubles that answer as another server than Redis 7.0, for a lock that needs its commands.
    pub fn compat(self, profile: Profile) -> Self {
        self.on(DoubleOf(profile))
    }

    /// Writes an HTML report to this path.
    pub fn report(mut self, path: impl AsRef<Path>) -> Self {
        self.report = Some(path.as_ref().to_owned());
        self
    }

    /// Plays all seeds and returns the results. It does not play the scenario of [`scenario`](Self::scenario):
    /// [`assert_sound`](Self::assert_sound) does.
    ///
    /// # Panics
    /// If the backend cannot be reached or the report cannot be written.
    #[must_use]
    #[track_caller]
    pub fn trial(self) -> Trial {
        self.tried(Expected::Sound)
    }

    #[track_caller]
    fn tried(self, expected: Expected) -> Trial {
        let plan = Plan {
            seeds: self.seeds,
            timing: self.timing,
            ..Plan::quick(&*self.backend)
        };
        let outcome = run_trial(&*self.subject, expected, &*self.backend, &plan, &|_| {});
        let mut trial = match outcome {
            Ok(trial) => trial,
            Err(error) => panic!("{error}"),
        };
        trial.code = Some(self.code);
        if let Some(path) = self.report {
            let written = path.parent().map_or(Ok(()), fs::create_dir_all);
            let page = html::page(std::slice::from_ref(&trial));
            if let Err(error) = written.and_then(|()| fs::write(&path, page)) {
                panic!("cannot write {}: {error}", path.display());
            }
        }
        trial
    }

    /// Plays the scenario of [`scenario`](Self::scenario) and returns its steps and the timeline of the run, also if the lock keeps all
    /// its promises.
    ///
    /// ```
    /// use redouble_conformance::check_listed;
    ///
    /// let drawn = check_listed("set-nx-px").scenario(r#"{"seed": 1, "lease_ms": 30000, "latency_ms": 1, "events": [
    ///     {"id": 0, "at_ms": 0, "op": {"actor": {"host": 0, "task": 0}, "op": "try"}}
    /// ]}"#).timeline();
    /// assert!(drawn.contains("LOCKED"), "{drawn}");
    /// ```
    ///
    /// # Panics
    /// If no scenario was given, or if the backend cannot be reached or cannot play it.
    #[must_use]
    #[track_caller]
    pub fn timeline(self) -> String {
        let Some(scenario) = &self.scenario else {
            panic!("no scenario was given: `.scenario(json)`");
        };
        match judge(&*self.subject, &*self.backend, scenario) {
            Ok(judged) => drawn(scenario, &judged, None),
            Err(error) => panic!("{error}"),
        }
    }

    /// Runs the check.
    ///
    /// # Panics
    /// If the lock breaks a promised property. The message lists all broken properties, the most severe
    /// first, and has a minimal scenario with a test that replays it. Also if a free lock is not granted to
    /// the only client: the message is then the lock's own error.
    #[track_caller]
    pub fn assert_sound(self) {
        let name = self.subject.name();
        let unobservable = match rehearse(&*self.subject, &*self.backend) {
            Ok(Rehearsed {
                refused: Some(why), ..
            }) => panic!("{name} cannot be judged: {why}"),
            Ok(rehearsed) => rehearsed.unobservable,
            Err(error) => panic!("{error}"),
        };
        let note = unobservable
            .as_deref()
            .map(|why| terminal::not_judged(name, why));
        let said = match &self.scenario {
            Some(scenario) => self.replayed(scenario, unobservable.is_some()),
            None => accusation(&self.trial()),
        };
        if let Some(said) = said {
            panic!("{said}{}", note.unwrap_or_default());
        }
        if let Some(note) = note {
            eprintln!("{note}");
        }
    }

    /// Runs the check until the lock has broken all of these properties, for a test that a broken lock is found.
    ///
    /// ```
    /// use redouble_conformance::{check_listed, checker::Property};
    ///
    /// check_listed("blind-del").assert_convicted(&[Property::Ownership]);
    /// ```
    ///
    /// # Panics
    /// If the seeds are used up before. The message lists the properties that the lock has broken, each with a seed.
    #[track_caller]
    pub fn assert_convicted(self, of: &'static [Property]) {
        let trial = self.tried(Expected::Convicted(of));
        let broken = trial.broken();
        let missing = of.iter().filter(|it| !broken.contains(it));
        let missing: Vec<String> = missing.map(Property::to_string).collect();
        let found = breaches(&trial).unwrap_or_else(|| "It breaks nothing.\n".to_owned());
        assert!(
            missing.is_empty(),
            "{} keeps {} with seeds {} to {}. {found}",
            trial.name,
            missing.join(", "),
            trial.plan.seeds.start,
            trial.plan.seeds.end.saturating_sub(1),
        );
    }

    /// Plays one scenario; returns a description of the violation, if there is one.
    #[track_caller]
    fn replayed(&self, scenario: &Scenario, unobserved: bool) -> Option<String> {
        let hidden = Adapted::unobserved(&*self.subject);
        let subject: &dyn DynSubject = match unobserved {
            true => &hidden,
            false => &*self.subject,
        };
        let judged = match judge(subject, &*self.backend, scenario) {
            Ok(judged) => judged,
            Err(error) => panic!("{error}"),
        };
        let promises = self.subject.promises();
        let mut broken = runner::broken(promises, scenario, &judged);
        broken.sort_by_key(|property| property.telling());
        let messages = broken.iter().map(|&property| {
            let witness = judged.witness(property);
            (property, witness.map_or("", |witness| &witness.message))
        });
        let mut text = listing(self.subject.name(), promises, messages)?;
        let witness = broken.first().and_then(|&first| judged.witness(first));
        let _ = write!(text, "\n{}", drawn(scenario, &judged, witness));
        Some(text)
    }
}

impl Counterexample {
    /// Returns the steps of the shrunk scenario and the timeline of its run, as a failed check prints them.
    #[must_use]
    pub fn timeline(&self) -> String {
        drawn(
            &self.scenario,
            &self.judged,
            self.judged.witness(self.property),
        )
    }
}

fn drawn(scenario: &Scenario, judged: &Judged, witness: Option<&Witness>) -> String {
    let mut drawn = Vec::new();
    // Writing to a vector does not fail.
    let _ = terminal::played(&mut drawn, scenario, &judged.run.history, witness);
    String::from_utf8_lossy(&drawn).into_owned()
}

/// Returns the broken properties with their messages, the most severe first, and for some the promise from
/// which they follow.
fn listing<'a>(
    name: &str,
    promises: Promises,
    broken: impl Iterator<Item = (Property, &'a str)>,
) -> Option<String> {
    let broken: Vec<(Property, &str)> = broken.collect();
    if broken.is_empty() {
        return None;
    }
    let plural = if broken.len() == 1 {
        "promise"
    } else {
        "promises"
    };
    let mut text = format!("{} breaks {} {plural}:\n", shown(name), broken.len());
    for &(property, message) in &broken {
        let _ = writeln!(text, "  {property}: {message}");
    }
    let hinted = broken.iter().filter(|(it, _)| it.hint(promises).is_some());
    let ids: Vec<&str> = hinted.clone().map(|(property, _)| property.id()).collect();
    let mut hints = hinted.filter_map(|(property, _)| property.hint(promises));
    if let Some(hint) = hints.next() {
        let _ = writeln!(text, "  {}: {hint}", ids.join(", "));
    }
    Some(text)
}

/// Returns the broken properties with their messages, and the saved scenario of each.
fn breaches(trial: &Trial) -> Option<String> {
    let mut text = listed(trial)?;
    text.push_str(&others(trial, 0));
    Some(text)
}

/// Returns the broken properties with their messages.
fn listed(trial: &Trial) -> Option<String> {
    let examples = trial.counterexamples.iter();
    let messages = examples.map(|example| {
        let witness = example.judged.witness(example.property);
        (
            example.property,
            witness.map_or("", |witness| &witness.message),
        )
    });
    listing(trial.name, trial.promises, messages)
}

/// Returns the seeds and the saved scenarios of the counterexamples from the `first` on.
fn others(trial: &Trial, first: usize) -> String {
    let mut text = String::new();
    for example in trial.counterexamples.iter().skip(first) {
        let scenario = Saved::of(trial, example).to_json();
        let (id, seed) = (example.property.id(), example.seed);
        let _ = write!(text, "\n{id}, seed {seed}, saved scenario: {scenario}");
    }
    text
}

/// Returns the panic message for a lock that breaks its promises: all of them, and the first counterexample
/// in full.
fn accusation(trial: &Trial) -> Option<String> {
    let listed = listed(trial)?;
    let first = trial.counterexamples.first()?;
    Some(format!(
        "{listed}\n{}{}",
        explain(trial, first),
        others(trial, 1)
    ))
}

fn explain(trial: &Trial, example: &Counterexample) -> String {
    let mut text = Vec::new();
    // Writing to a vector does not fail.
    let _ = terminal::counterexample(&mut text, trial, example);
    let text = String::from_utf8_lossy(&text);
    let saved = Saved::of(trial, example);
    let code = trial.code.as_deref();
    format!(
        "{text}\nThis test replays it:\n\n{}\nsaved scenario: {}",
        saved.rust_test(code),
        saved.to_json()
    )
}
