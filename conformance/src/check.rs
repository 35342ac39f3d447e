//! The entry for people who check a lock of their own, from a test.

#[cfg(unix)]
use crate::subject::Plain;
use crate::{
    backend::{Backend, Double, WallClock},
    checker::Property,
    report::{Saved, html, terminal},
    runner::{Counterexample, Plan, QUICK, Trial, judge, run_trial},
    scenario::Scenario,
    subject::{Expected, Subject, Suspect, Threads},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The seeds of the quick tier for a lock in its plain form.
#[cfg(unix)]
const PLAIN: u64 = 200;

/// The seeds of the quick tier for a lock on threads of its own.
const THREADS: u64 = 30;

/// Starts to check a lock.
///
/// See [`Subject`] for what a lock has to implement.
pub fn check<S: Subject>(subject: S) -> Check {
    Check {
        suspect: Box::new(Arc::new(subject)),
        backend: Box::new(Double),
        seeds: 0..QUICK,
        report: None,
        scenario: None,
    }
}

/// A check that is being set up.
#[must_use = "nothing runs until the check is asserted or asked for its trial"]
pub struct Check {
    suspect: Box<dyn Suspect>,
    backend: Box<dyn Backend>,
    seeds: std::ops::Range<u64>,
    report: Option<PathBuf>,
    scenario: Option<Scenario>,
}

impl Check {
    /// The quick tier: two thousand scenarios, some seconds. The default.
    pub fn quick(mut self) -> Self {
        self.seeds = 0..QUICK;
        self
    }

    /// Plays the lock's code as it is, on tokio's own clock and tasks, over sockets that it dials itself: see
    /// [`Plain`]. That takes some hundred times as long, so two hundred scenarios are played unless more
    /// are asked for.
    #[cfg(unix)]
    pub fn plain(mut self) -> Self {
        self.suspect = Box::new(Plain::from(self.suspect));
        self.seeds = 0..PLAIN;
        self
    }

    /// Plays code that blocks: on threads of its own, in real time, with leases of 400 ms on the double. See
    /// [`Threads`]. Thirty scenarios are played unless more are asked for.
    pub fn threads(mut self) -> Self {
        self.suspect = Box::new(Threads::from(self.suspect));
        self.backend = Box::new(WallClock::new(Double, 400));
        self.seeds = 0..THREADS;
        self
    }

    /// Tries these seeds.
    pub fn seeds(mut self, seeds: std::ops::Range<u64>) -> Self {
        self.seeds = seeds;
        self
    }

    /// Plays one saved scenario only, for instance the minimal one of an earlier failure.
    ///
    /// # Panics
    /// If the text is not the JSON form of a scenario.
    pub fn scenario(mut self, json: &str) -> Self {
        match Scenario::from_json(json) {
            Ok(scenario) => self.scenario = Some(scenario),
            Err(error) => panic!("not a scenario: {error}"),
        }
        self
    }

    /// Runs on another backend than the embedded double.
    pub fn on(mut self, backend: impl Backend + 'static) -> Self {
        self.backend = Box::new(backend);
        self
    }

    /// Writes an HTML report there.
    pub fn report(mut self, path: impl AsRef<Path>) -> Self {
        self.report = Some(path.as_ref().to_owned());
        self
    }

    /// Runs the check and returns what was found.
    ///
    /// # Panics
    /// If the backend is out of reach or the report cannot be written.
    #[must_use]
    pub fn trial(self) -> Trial {
        let plan = Plan {
            seeds: self.seeds,
            ..Plan::quick(&*self.backend)
        };
        let outcome = run_trial(
            &*self.suspect,
            Expected::Sound,
            &*self.backend,
            &plan,
            &|_| {},
        );
        let trial = outcome.unwrap_or_else(|error| panic!("{error}"));
        if let Some(path) = self.report {
            let written = path.parent().map_or(Ok(()), fs::create_dir_all);
            written
                .and_then(|()| fs::write(&path, html::page(std::slice::from_ref(&trial))))
                .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        }
        trial
    }

    /// Runs the check.
    ///
    /// # Panics
    /// If the lock breaks a property that it promises: with the property, a minimal scenario and
    /// a test that replays it.
    pub fn assert_sound(self) {
        let Some(scenario) = self.scenario.clone() else {
            let name = self.suspect.name();
            let trial = self.trial();
            if let Some(example) = trial.counterexamples.first() {
                panic!("{name} breaks its promise\n{}", explain(&trial, example));
            }
            return;
        };
        let judged = judge(&*self.suspect, &*self.backend, &scenario)
            .unwrap_or_else(|error| panic!("{error}"));
        let broken = Property::ALL.into_iter().find_map(|property| {
            judged
                .witness(property)
                .map(|witness| format!("{property}: {}", witness.message))
        });
        if let Some(message) = broken {
            panic!("{} breaks its promise, {message}", self.suspect.name());
        }
    }
}

fn explain(trial: &Trial, example: &Counterexample) -> String {
    let mut text = Vec::new();
    // Writing to a vector does not fail.
    let _ = terminal::counterexample(&mut text, trial, example);
    let text = String::from_utf8_lossy(&text);
    let saved = Saved::of(trial, example);
    format!(
        "{text}\n{}\nsaved scenario: {}",
        saved.rust_test(),
        saved.to_json()
    )
}
