//! Plays many sequences on the double and a real server, and reports each kind of difference once, in its
//! shortest form.

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

/// Number of times that a difference of the same appearance is shortened: it may be a different one.
const SHORTENED_MAX: u64 = 3;

/// Settings of a campaign.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Seeds; each gives one sequence.
    pub seeds: Range<u64>,
    /// Approximate number of requests in a sequence.
    pub requests: usize,
    /// Only commands whose names contain this text.
    pub only: String,
    /// Counts the uses of keys in all generated sequences, instead of some.
    pub counts_uses: bool,
    /// Plays mutated recorded traffic instead of generated requests.
    pub traffic: Option<Traffic>,
    /// Number of kinds of differences after which the campaign ends.
    pub findings_max: usize,
}

/// A kind of difference.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Seed of the sequence that was shortened.
    pub seed: u64,
    /// Number of sequences with this kind of difference.
    pub seen: u64,
    /// Its shortest form.
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

/// Results of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of sequences.
    pub sequences: u64,
    /// Number of requests in them, without those that read the data afterwards.
    pub requests: usize,
    /// Number of replies that were compared.
    pub replies: usize,
    /// Number of errors among these replies.
    pub errors: usize,
    /// The kinds of differences.
    pub findings: Vec<Finding>,
    /// The commands and options that were sent and accepted.
    pub coverage: Coverage,
    /// The same counts by the names of rows and options.
    pub tallies: Vec<(String, Tally)>,
    /// Rows and options that were not sent and accepted over both protocols.
    pub missed: Vec<String>,
    /// Commands and options that fall short of the shares in [`Generator::shortfall`].
    pub short: Vec<String>,
}

impl Report {
    /// Formats the report as JSON, with differences as transcripts.
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
    /// Plays the campaign on both servers. Calls `progress` after each sequence with the number of kinds of
    /// differences.
    ///
    /// # Errors
    /// If one of the servers does not reply.
    pub fn run(
        &self,
        real: &mut Peer,
        double: &mut Peer,
        progress: &mut dyn FnMut(usize),
    ) -> io::Result<Report> {
        // Uses the double's table: a command that the double lacks is no difference.
        let table = double.table().clone();
        let mut generator = Generator::new(&table, &self.only);
        if self.counts_uses {
            generator = generator.counting_uses();
        }
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

/// Returns the shortest sequence that still differs; `None` if the difference does not recur, because it was
/// due to a clock.
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

/// Describes a difference before it is shortened.
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

/// Describes a short difference: its commands, and the reply to the last one.
fn kind(difference: &Difference, double: &Peer) -> String {
    let steps = difference.real.steps.iter();
    let names: BTreeSet<String> = steps
        .filter(|(step, _)| step.connection != OBSERVER)
        .map(|(step, _)| double.table().name_of(&step.request))
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    format!("{} {}", look(difference, double), names.join(" "))
}
