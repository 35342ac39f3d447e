//! Many sequences beside a real server: what they find, each kind of difference once and as short as it
//! gets.

use super::{
    coverage::{Coverage, Tally},
    generate::Generator,
    peer::Peer,
    sequence::{Difference, OBSERVER, Sequence},
    traffic::Traffic,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
};

/// How often a difference that looks the same is shortened: it may be another one.
const SHORTENED_MAX: u64 = 3;

/// What to play.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// One sequence for each.
    pub seeds: Range<u64>,
    /// Requests in a sequence, about.
    pub requests: usize,
    /// Only commands whose names contain this.
    pub only: String,
    /// Plays recorded traffic with changes, instead of generated requests.
    pub traffic: Option<Traffic>,
    /// It ends after so many kinds of differences.
    pub findings_max: usize,
}

/// A kind of difference.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The seed of the sequence that was shortened.
    pub seed: u64,
    /// How many sequences differed in this way.
    pub seen: u64,
    /// The shortest form of it.
    pub difference: Difference,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (count, commands) = (self.seen, self.difference.requests().len());
        let plural = if commands == 1 { "request" } else { "requests" };
        writeln!(
            f,
            "seed {}, seen in {count} sequences; {commands} {plural}:",
            self.seed
        )?;
        f.write_str(&self.difference.transcript())
    }
}

/// What came of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Sequences that were played.
    pub sequences: u64,
    /// Requests in them, without those that read the data afterwards.
    pub requests: usize,
    /// Replies that were compared, and how many of them were errors.
    pub replies: usize,
    /// See above.
    pub errors: usize,
    /// Every kind of difference.
    pub findings: Vec<Finding>,
    /// What was sent and accepted.
    pub coverage: Coverage,
    /// The same by the names of rows and options.
    pub tallies: Vec<(String, Tally)>,
    /// Rows and options that were not sent and accepted over both protocols.
    pub missed: Vec<String>,
    /// Commands and options that fall short of the shares in [`Generator::shortfall`].
    pub short: Vec<String>,
}

impl Report {
    /// All of it as JSON; differences as transcripts.
    pub fn to_json(&self) -> Value {
        let findings = self.findings.iter().map(|finding| {
            json!({
                "seed": finding.seed,
                "seen": finding.seen,
                "transcript": finding.difference.transcript(),
            })
        });
        let tallies = self.tallies.iter().map(
            |(name, tally)| json!({ "name": name, "sent": tally.sent, "accepted": tally.accepted }),
        );
        json!({
            "sequences": self.sequences,
            "requests": self.requests,
            "replies": self.replies,
            "errors": self.errors,
            "differences": findings.collect::<Vec<_>>(),
            "coverage": tallies.collect::<Vec<_>>(),
            "missed": self.missed,
            "short": self.short,
        })
    }
}

impl Campaign {
    /// Plays it on both; tells `progress` of each sequence and how many kinds of differences there are.
    ///
    /// # Errors
    /// If one of the servers does not answer.
    pub fn run(
        &self,
        real: &mut Peer,
        double: &mut Peer,
        progress: &mut dyn FnMut(usize),
    ) -> io::Result<Report> {
        // The double's table, since what it does not have is no difference but a lack.
        let table = double.table().clone();
        let generator = Generator::new(&table, &self.only);
        let mut report = Report::default();
        let mut found: BTreeMap<String, Finding> = BTreeMap::new();
        let mut looks: BTreeMap<String, u64> = BTreeMap::new();
        for seed in self.seeds.clone() {
            if found.len() >= self.findings_max {
                break;
            }
            let drawn = match &self.traffic {
                None => generator.sequence(seed, self.requests),
                Some(traffic) => traffic.sequence(&table, seed, self.requests),
            };
            let sequence = &drawn.sequence;
            let played = sequence.play(real)?;
            let (errors, replies) = played.errors();
            report.sequences += 1;
            report.requests += sequence.steps.len();
            report.errors += errors;
            report.replies += replies;
            report.coverage.add(&table, &drawn, &played);
            if let Some(difference) = played.compare(double)? {
                let look = look(&difference, double);
                let times = looks.entry(look.clone()).or_default();
                *times += 1;
                if *times > SHORTENED_MAX {
                    let known = found
                        .values_mut()
                        .find(|it| self::look(&it.difference, double) == look);
                    if let Some(known) = known {
                        known.seen += 1;
                    }
                } else if let Some(difference) = shortest(sequence, real, double)? {
                    let kind = kind(&difference, double);
                    let new = Finding {
                        seed,
                        seen: 0,
                        difference,
                    };
                    found.entry(kind).or_insert(new).seen += 1;
                }
            }
            progress(found.len());
        }
        if self.traffic.is_none() {
            report.tallies = generator.tallies(&report.coverage);
            report.missed = generator.missed(&report.coverage);
            report.short = generator.shortfall(&report.coverage, report.requests);
        }
        report.findings = found.into_values().collect();
        Ok(report)
    }
}

/// The shortest sequence that still differs; `None` if it does not do so again: a clock ticked.
fn shortest(
    sequence: &Sequence,
    real: &mut Peer,
    double: &mut Peer,
) -> io::Result<Option<Difference>> {
    if sequence.compare(real, double)?.is_none() {
        return Ok(None);
    }
    let shrunk = sequence.shrunk(|shorter| {
        let differs = |real: &mut Peer, double: &mut Peer| {
            shorter
                .compare(real, double)
                .is_ok_and(|difference| difference.is_some())
        };
        differs(real, double)
    });
    shrunk.compare(real, double)
}

/// What a difference looks like before it is shortened.
fn look(difference: &Difference, double: &Peer) -> String {
    let Some((step, theirs)) = difference.real.steps.last() else {
        return String::new();
    };
    let first = |outputs: &[super::Output]| {
        let reply = outputs.first().map(|output| output.reply.clone());
        let text = String::from_utf8_lossy(&reply.unwrap_or_default()).into_owned();
        let line: String = text
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(30)
            .collect();
        line.replace(|c: char| c.is_ascii_digit(), "0")
    };
    let name = double.table().name_of(&step.request);
    format!("{name} {} {}", first(theirs), first(&difference.double))
}

/// What a short difference is about: the commands that it takes, and how the last one is answered.
fn kind(difference: &Difference, double: &Peer) -> String {
    let steps = difference.real.steps.iter();
    let names: BTreeSet<String> = steps
        .filter(|(step, _)| step.connection != OBSERVER)
        .map(|(step, _)| double.table().name_of(&step.request))
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    format!("{} {}", look(difference, double), names.join(" "))
}
