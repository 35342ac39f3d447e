//! Random sequences of requests for every row of a command table, with all of its options, valid and invalid.
//! A new row of the table needs no change here.

use super::{
    coverage::{Coverage, Feature, Tally},
    known::{NOT_SENT, is_never_accepted},
    mistake::Mistake,
    prepared,
    sequence::{COUNT_USES, Sequence, Step},
    source::Source,
    table::{Argument, Kind, Row, Table},
    transcript::split,
    values::{SETUP, is_given},
};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of open connections of one sequence.
const CONNECTIONS_MAX: usize = 3;

/// Percentage of sequences with requests that share a write, and percentage of requests there that wait for
/// the next one.
const BATCHES: usize = 40;
/// Percentage of requests with a mistake, among those that need not be accepted.
const MISTAKEN: usize = 12;
const HELD: usize = 40;

/// Minimum percentage of replies to each command that are not errors.
const GOOD_PERCENT_MIN: u64 = 60;
/// Minimum number of uses of each command and each option in `USES_PER` requests.
const USES_MIN: u64 = 500;
const USES_PER: u64 = 1_000_000;

/// Percentage of sequences that count the uses of keys.
const COUNTED: usize = 10;

/// Distances between features that follow each other, in the order of the features: one per round. In each round each
/// feature has other neighbours, because one that always came behind MULTI or SUBSCRIBE would hardly ever be accepted.
const STRIDES: [usize; 8] = [1, 7, 11, 13, 17, 19, 23, 29];

/// Requests that subscribe to the events of all keys, which the connection's own requests cause too.
const LISTEN: [&str; 2] = [
    "CONFIG SET notify-keyspace-events KEA",
    "PSUBSCRIBE __key*__:*",
];

/// A sequence, and the features for which it was drawn.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The requests.
    pub sequence: Sequence,
    /// Features of each request; none if a mistake was made.
    pub(super) features: Vec<Vec<Feature>>,
    pub(super) mistakes: BTreeMap<Mistake, u64>,
}

/// Draws sequences from a table.
#[derive(Debug)]
pub struct Generator<'a> {
    pub(super) table: &'a Table,
    /// Rows that are sent, by group.
    groups: BTreeMap<&'a str, Vec<usize>>,
    /// All features, in a shuffled order.
    features: Vec<Feature>,
    /// Percentage of sequences that count the uses of keys.
    counted: usize,
}

impl<'a> Generator<'a> {
    /// Makes a generator for all comparable rows of a table, or those whose names contain `only`.
    pub fn new(table: &'a Table, only: &str) -> Self {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut features = Vec::new();
        for (at, row) in table.rows.iter().enumerate() {
            let is_sent = NOT_SENT.iter().all(|it| it.name != row.name);
            if !is_sent || !row.name.contains(only) {
                continue;
            }
            groups.entry(&row.group).or_default().push(at);
            features.push(Feature::Row(at));
            features.extend(options(row).map(|it| Feature::Given(at, it)));
            features.extend(repeated(row).map(|it| Feature::Repeated(at, it)));
        }
        // Neighbouring features would give sequences of a single command.
        let mut source = Source::new(0, "features");
        source.shuffle(&mut features);
        Self {
            table,
            groups,
            features,
            counted: COUNTED,
        }
    }

    /// Counts the uses of keys in all sequences: each lookup of a key shows in OBJECT FREQ, which is compared too.
    pub fn counting_uses(mut self) -> Self {
        self.counted = 100;
        self
    }

    /// Returns the number of sequences from seed 0 on, with `requests` requests each, that draw every feature.
    pub fn enough(&self, requests: usize) -> u64 {
        self.features.len().div_ceil(forced(requests).max(1)) as u64
    }

    /// Returns the feature for which a request is drawn on purpose. Each round has all features.
    fn feature(&self, place: u64) -> Feature {
        let len = self.features.len() as u64;
        let (round, at) = (place / len, place % len);
        let mut strides =
            (0..).map(|more| STRIDES[((round + more) % STRIDES.len() as u64) as usize] as u64);
        // A prime that does not divide the number of features leads to each of them.
        let stride = strides.find(|stride| *stride == 1 || !len.is_multiple_of(*stride));
        let at = u128::from(at) * u128::from(stride.unwrap_or(1)) % u128::from(len);
        self.features[at as usize]
    }

    /// Draws the sequence of a seed, with about `requests` requests.
    pub fn sequence(&self, seed: u64, requests: usize) -> Drawn {
        let draw = Draw::new(self, seed);
        if self.features.is_empty() {
            return draw.into_drawn(seed);
        }
        draw.sequence(seed, requests)
    }

    /// Returns the names of missed items: rows and options that were not sent and accepted over both
    /// protocols, and mistakes that were not made.
    pub fn missed(&self, coverage: &Coverage) -> Vec<String> {
        let lack = |feature: &Feature| {
            let name = self.name(*feature);
            let lack = coverage.of(*feature).lack()?;
            let is_excused = is_never_accepted(&name);
            let is_missed = !is_excused || lack.starts_with("never sent");
            is_missed.then(|| format!("{name}: {lack}"))
        };
        let mut missed: Vec<String> = self.features.iter().filter_map(lack).collect();
        missed.sort();
        missed.extend(
            coverage
                .unmade()
                .map(|it| format!("mistake {it:?}: never made")),
        );
        missed
    }

    /// Returns the commands with too many errors among their replies, and the options that were sent too rarely in this
    /// number of requests.
    pub fn shortfall(&self, coverage: &Coverage, requests: usize) -> Vec<String> {
        let answers = coverage.answers();
        let commands = self.names().filter_map(|name| {
            let answers = answers.get(name).copied().unwrap_or_default();
            let percent = answers.percent();
            let is_short = percent < GOOD_PERCENT_MIN && !is_never_accepted(name);
            is_short.then(|| {
                format!(
                    "{name}: {percent} % of {} replies are no error",
                    answers.all
                )
            })
        });
        let uses_min = requests as u64 * USES_MIN / USES_PER;
        let options = self.features.iter().filter_map(|feature| {
            let uses: u64 = coverage.of(*feature).sent.iter().sum();
            let name = || self.name(*feature);
            (uses < uses_min).then(|| format!("{}: given {uses} times of {uses_min}", name()))
        });
        let mut short: Vec<String> = commands.chain(options).collect();
        short.sort();
        short
    }

    /// Returns the counts of each row and option, by name.
    pub fn tallies(&self, coverage: &Coverage) -> Vec<(String, Tally)> {
        let tally = |feature: &Feature| (self.name(*feature), coverage.of(*feature));
        let mut tallies: Vec<_> = self.features.iter().map(tally).collect();
        tallies.sort_by(|a, b| a.0.cmp(&b.0));
        tallies
    }

    /// Returns the names of the commands that it sends.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let rows = self.groups.values().flatten();
        rows.map(|row| &*self.table.rows[*row].name)
    }

    fn name(&self, feature: Feature) -> String {
        let (at, argument, suffix) = match feature {
            Feature::Row(at) => return self.table.rows[at].name.clone(),
            Feature::Given(at, id) => (at, id, ""),
            Feature::Repeated(at, id) => (at, id, " twice"),
        };
        let row = &self.table.rows[at];
        let path = row.path_to(argument);
        format!("{} {}{suffix}", row.name, path.join(" "))
    }
}

/// Returns the number of requests that are drawn for a feature.
fn forced(requests: usize) -> usize {
    requests * 2 / 3
}

/// Returns the optional arguments, and those that are one of several.
fn options(row: &Row) -> impl Iterator<Item = usize> {
    let optional = |it: &&Argument| it.optional && !is_given(row, it);
    let optional = row
        .each_argument()
        .into_iter()
        .filter(optional)
        .map(|it| it.id);
    let groups = row
        .each_argument()
        .into_iter()
        .filter(|it| it.kind == Kind::OneOf);
    let alternatives = groups.flat_map(|it| it.arguments.iter().map(|it| it.id));
    let found: BTreeSet<usize> = optional.chain(alternatives).collect();
    found.into_iter()
}

fn repeated(row: &Row) -> impl Iterator<Item = usize> {
    let multiple = row.each_argument().into_iter().filter(|it| it.multiple);
    multiple.map(|it| it.id)
}

/// State of a connection.
#[derive(Debug)]
struct Live {
    number: u32,
    is_resp3: bool,
    queues: bool,
}

/// One sequence in progress. `request.rs` draws a single request.
#[derive(Debug)]
pub(super) struct Draw<'a, 'g> {
    pub(super) generator: &'a Generator<'g>,
    pub(super) source: Source,
    steps: Vec<Step>,
    features: Vec<Vec<Feature>>,
    mistakes: BTreeMap<Mistake, u64>,
    live: Vec<Live>,
    /// True if the sequence counts the uses of keys, so that no request may change the policy.
    pub(super) counts_uses: bool,
    /// Number of connections so far, including closed ones.
    connections: u32,
    /// The row that is drawn, and the features of the request.
    pub(super) row: usize,
    pub(super) used: Vec<Feature>,
    /// True if the request should be accepted: all values and keys have the right type.
    pub(super) is_careful: bool,
    /// Number of keys that a preceding count has announced.
    pub(super) linked: Option<usize>,
    /// The first key of the request.
    pub(super) first_key: Option<String>,
}

/// The option for which a request is drawn, and whether it is given twice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    pub(super) id: Option<usize>,
    pub(super) twice: bool,
}

impl<'a, 'g> Draw<'a, 'g> {
    pub(super) fn new(generator: &'a Generator<'g>, seed: u64) -> Self {
        Self {
            generator,
            source: Source::new(seed, "sequence"),
            steps: Vec::new(),
            features: Vec::new(),
            mistakes: BTreeMap::new(),
            live: Vec::new(),
            counts_uses: Source::new(seed, "uses").percent(generator.counted),
            connections: 0,
            row: 0,
            used: Vec::new(),
            is_careful: false,
            linked: None,
            first_key: None,
        }
    }

    fn into_drawn(mut self, seed: u64) -> Drawn {
        self.batch(seed);
        Drawn {
            sequence: Sequence {
                seed,
                steps: self.steps,
            },
            features: self.features,
            mistakes: self.mistakes,
        }
    }

    /// Makes some requests share a write with the next one of their connection.
    fn batch(&mut self, seed: u64) {
        let mut source = Source::new(seed, "batches");
        if !source.percent(BATCHES) {
            return;
        }
        // Whether the next request of a connection may share its write.
        let mut next: BTreeMap<u32, bool> = BTreeMap::new();
        for step in self.steps.iter_mut().rev() {
            let name = step.request.first().map(|name| name.to_ascii_lowercase());
            let name = name.unwrap_or_default();
            // The number of these replies, or the position of replies in a transaction, is not known
            // beforehand.
            let is_single = !name.ends_with(b"unsubscribe");
            let may_share = next.insert(step.connection, is_single) == Some(true);
            let waits = source.percent(HELD);
            step.is_held = waits && may_share && is_single && name != b"exec";
        }
    }

    fn sequence(mut self, seed: u64, requests: usize) -> Drawn {
        let count = [1, 1, 1, 2, 2, CONNECTIONS_MAX][self.source.below(6)];
        for _ in 0..count {
            let live = self.open();
            self.live.push(live);
        }
        let themes = self.themes();
        if self.counts_uses {
            self.step(self.live[0].number, split(COUNT_USES).unwrap_or_default());
        }
        self.setup(&themes);
        if self.live[0].is_resp3 && self.source.percent(15) {
            for line in LISTEN {
                self.step(self.live[0].number, split(line).unwrap_or_default());
            }
        }
        let generator = self.generator;
        let forced = forced(requests);
        let mut due = (0..forced).map(|n| {
            // Sequences with neighbouring seeds draw neighbouring features.
            generator.feature(seed.wrapping_mul(forced as u64).wrapping_add(n as u64))
        });
        let mut at = 0;
        for n in 0..requests {
            if count > 1 && self.source.percent(35) {
                at = self.source.below(count);
            }
            if n % 3 != 2
                && let Some(feature) = due.next()
            {
                let given = |id, twice| Wanted {
                    id: Some(id),
                    twice,
                };
                let (row, wanted) = match feature {
                    Feature::Row(row) => (row, Wanted::default()),
                    Feature::Given(row, id) => (row, given(id, false)),
                    Feature::Repeated(row, id) => (row, given(id, true)),
                };
                self.is_careful = true;
                self.send(at, row, wanted);
                self.is_careful = false;
            } else if self.live[at].queues && self.source.percent(30) {
                let end = if self.source.percent(85) {
                    "EXEC"
                } else {
                    "DISCARD"
                };
                self.push(at, vec![end.into()]);
            } else {
                let row = self.theme_row(&themes);
                self.send(at, row, Wanted::default());
            }
        }
        self.into_drawn(seed)
    }

    fn step(&mut self, connection: u32, request: Vec<Vec<u8>>) {
        self.steps.push(Step {
            connection,
            request,
            is_held: false,
        });
        self.features.push(std::mem::take(&mut self.used));
    }

    fn open(&mut self) -> Live {
        self.connections += 1;
        let is_resp3 = self.source.percent(50);
        if is_resp3 {
            self.step(self.connections, split("HELLO 3").unwrap_or_default());
        }
        Live {
            number: self.connections,
            is_resp3,
            queues: false,
        }
    }

    /// Returns one or two groups from which most requests come, so that they meet on the same keys.
    fn themes(&mut self) -> Vec<&'static str> {
        let groups: Vec<&str> = self.generator.groups.keys().copied().collect();
        let count = 1 + self.source.below(2);
        let drawn = (0..count).map(|_| groups[self.source.below(groups.len())]);
        let drawn: Vec<&str> = drawn.collect();
        // The names of groups live as long as the table; the list of keys has the same names.
        let names = SETUP.iter().map(|(group, _)| *group);
        names.filter(|name| drawn.contains(name)).collect()
    }

    fn theme_row(&mut self, themes: &[&str]) -> usize {
        let groups = &self.generator.groups;
        let own: Vec<usize> = themes
            .iter()
            .filter_map(|name| groups.get(name))
            .flatten()
            .copied()
            .collect();
        if own.is_empty() || self.source.percent(25) {
            let all: Vec<usize> = groups.values().flatten().copied().collect();
            return all[self.source.below(all.len())];
        }
        own[self.source.below(own.len())]
    }

    fn setup(&mut self, themes: &[&str]) {
        for (group, line) in SETUP {
            let request = split(line).unwrap_or_default();
            let is_there = self.generator.table.row(&request).is_some();
            let chance = if themes.contains(group) { 75 } else { 45 };
            if is_there && self.source.percent(chance) {
                self.step(self.live[0].number, request);
            }
        }
    }

    fn push(&mut self, at: usize, request: Vec<String>) {
        let connection = self.live[at].number;
        let name = request[0].to_ascii_lowercase();
        let request = request.into_iter().map(String::into_bytes).collect();
        self.step(connection, request);
        match &*name {
            "multi" => self.live[at].queues = true,
            "exec" | "discard" | "reset" => self.live[at].queues = false,
            // What follows comes over another connection.
            "quit" => self.live[at] = self.open(),
            _ => {}
        }
    }

    fn send(&mut self, at: usize, row: usize, wanted: Wanted) {
        let mut request = self.request(row, wanted);
        let generator = self.generator;
        let row = &generator.table.rows[row];
        if self.source.percent(prepared::FITTED) {
            prepared::fit(&row.name, &mut request, &mut self.source);
        }
        if !self.is_careful && self.source.percent(MISTAKEN) && self.make_mistake(row, &mut request)
        {
            self.used.clear();
        }
        if !self.live[at].queues && self.source.percent(prepared::PREPARED) {
            self.prepare(at, &row.name);
        }
        self.push(at, request);
    }

    /// Sends the requests that a command needs to succeed.
    fn prepare(&mut self, at: usize, name: &str) {
        let used = std::mem::take(&mut self.used);
        let key = self.first_key.clone().unwrap_or_default();
        for line in prepared::requests(name) {
            let words = split(line).unwrap_or_default();
            let words = words.into_iter().map(|word| match &*word {
                b"{}" => key.clone(),
                word => String::from_utf8_lossy(word).into_owned(),
            });
            self.push(at, words.collect());
        }
        self.used = used;
    }

    pub(super) fn made(&mut self, mistake: Mistake) {
        *self.mistakes.entry(mistake).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;
    use redouble_conformance::backend::redis_server;

    /// Number of draws of every row and option.
    const ROUNDS: u64 = 50;

    /// Returns the double's table, and a real server's table if there is one: it has rows that the double
    /// lacks.
    fn tables() -> Vec<Table> {
        let mut tables = vec![Peer::double().expect("a double").table().clone()];
        if let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") {
            let real = Peer::real(&program).expect("the server starts");
            tables.push(real.table().clone());
        }
        tables
    }

    #[test]
    fn some_requests_wait_for_the_next_one_and_none_forever() {
        let double = Peer::double().expect("a double");
        let generator = Generator::new(double.table(), "");
        let (mut held, mut all) = (0, 0);
        for seed in 0..100 {
            let steps = generator.sequence(seed, 40).sequence.steps;
            for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.is_held) {
                let mut later = steps[at + 1..].iter();
                assert!(
                    later.any(|it| it.connection == step.connection),
                    "seed {seed}"
                );
                held += 1;
            }
            all += steps.len();
        }
        assert!(held * 10 > all && held * 4 < all, "{held} of {all}");
    }

    /// Commands that the double lacks are drawn well enough for the time when it has them.
    #[test]
    fn a_real_server_accepts_what_the_double_lacks() {
        let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") else {
            return;
        };
        let mut real = Peer::real(&program).expect("the server starts");
        let mut table = real.table().clone();
        let double = Peer::double().expect("a double");
        let is_lacking = |row: &Row| double.table().find(&row.name).is_none();
        table.rows.retain(is_lacking);
        let generator = Generator::new(&table, "");
        let mut coverage = Coverage::default();
        let mut missed = Vec::new();
        // Random draws may miss an option for a while.
        let (few, many) = (
            generator.enough(40) * ROUNDS,
            generator.enough(40) * ROUNDS * 4,
        );
        for seed in 0..many {
            let drawn = generator.sequence(seed, 40);
            let played = drawn.sequence.play(&mut real).expect("the server answers");
            coverage.add(&table, &drawn, &played);
            if seed >= few && seed % 64 == 0 {
                missed = generator.missed(&coverage);
                missed.retain(|it| !it.starts_with("mistake"));
                if missed.is_empty() {
                    break;
                }
            }
        }
        assert_eq!(missed, Vec::<String>::new());
    }

    #[test]
    fn an_option_that_is_wanted_is_in_the_request() {
        for table in tables() {
            let generator = Generator::new(&table, "");
            let mut draw = Draw::new(&generator, 7);
            for (at, row) in table.rows.iter().enumerate() {
                for argument in row.each_argument() {
                    let Some(token) = argument.token.as_ref() else {
                        continue;
                    };
                    let wanted = Wanted {
                        id: Some(argument.id),
                        twice: false,
                    };
                    let request = draw.request(at, wanted);
                    let has = request.iter().any(|word| word.eq_ignore_ascii_case(token));
                    assert!(has, "{token} is not in {request:?}");
                    assert!(draw.used.contains(&Feature::Given(at, argument.id)));
                    draw.used.clear();
                }
            }
        }
    }

    #[test]
    fn each_round_has_every_feature() {
        let double = Peer::double().expect("a double");
        let generator = Generator::new(double.table(), "");
        let len = generator.features.len() as u64;
        let mut followers = BTreeSet::new();
        for round in 0..STRIDES.len() as u64 {
            let drawn: Vec<Feature> = (0..len)
                .map(|at| generator.feature(round * len + at))
                .collect();
            let different: BTreeSet<Feature> = drawn.iter().copied().collect();
            assert_eq!(different.len() as u64, len, "round {round}");
            let first = generator.features[0];
            let at = drawn
                .iter()
                .position(|it| *it == first)
                .expect("it is drawn");
            followers.insert(drawn[(at + 1) % drawn.len()]);
        }
        assert!(followers.len() > 4, "{}", followers.len());
    }

    #[test]
    fn equal_seeds_give_equal_sequences() {
        let tables = tables();
        let generator = Generator::new(&tables[0], "");
        let draw = |seed| generator.sequence(seed, 40).sequence;
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3).steps, draw(4).steps);
    }

    #[test]
    fn every_hint_is_used() {
        let tables = tables();
        let rows = || tables.iter().flat_map(|table| &table.rows);
        // Hints for missing commands can only be checked with a real server's table.
        let is_complete = tables.len() > 1;
        for (command, name) in super::super::values::hints() {
            let mut rows = rows().filter(|row| command == "*" || row.name == command);
            let used = rows.any(|row| row.each_argument().iter().any(|it| it.name == name));
            assert!(
                used || !is_complete,
                "no argument for the hint {command} {name}"
            );
        }
    }
}
