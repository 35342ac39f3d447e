//! Random sequences of requests for every row of a command table, with every option that it has,
//! right and wrong. A row that is added to the table is drawn without a change here.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a mistake that does not fit a request is left out"
)]

use super::{
    known::{self, How},
    sequence::{Sequence, Step},
    table::{Argument, Kind, Row, Table},
    transcript::split,
    values::{ANY_KEYS, ODD, Pool, SETUP, is_given, keys_of, pool},
};
use redouble::engine::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Connections of one sequence at most, as many as are alive at a time.
const CONNECTIONS_MAX: usize = 3;

/// What has to be drawn at least once: a row, an argument that may be left out or is one of several,
/// or an argument given several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Feature {
    Row(usize),
    Given(usize, usize),
    Repeated(usize, usize),
}

/// A mistake that is made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mistake {
    /// An argument too few.
    Missing,
    /// A word too many.
    Surplus,
    /// An option for the second time, or one that excludes another.
    Conflict,
    /// A value that is none of its type.
    Odd,
    /// Two arguments in each other's place.
    Swapped,
    /// A key of another type.
    WrongType,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Missing,
        Self::Surplus,
        Self::Conflict,
        Self::Odd,
        Self::Swapped,
        Self::WrongType,
    ];
}

/// What has been generated.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    features: BTreeSet<Feature>,
    mistakes: BTreeMap<Mistake, usize>,
}

/// Draws sequences from a table.
#[derive(Debug)]
pub struct Generator<'a> {
    table: &'a Table,
    /// Rows that are sent, by the group that they belong to.
    groups: BTreeMap<&'a str, Vec<usize>>,
    /// All that is to be drawn, in an order of its own.
    features: Vec<Feature>,
}

impl<'a> Generator<'a> {
    /// For all rows of a table that can be compared, or those of them whose names contain `only`.
    pub fn new(table: &'a Table, only: &str) -> Self {
        let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut features = Vec::new();
        for (at, row) in table.rows.iter().enumerate() {
            let is_sent = !matches!(known::how(&row.name), Some(How::NotSent));
            if !is_sent || !row.name.contains(only) {
                continue;
            }
            groups.entry(&row.group).or_default().push(at);
            features.push(Feature::Row(at));
            features.extend(options(row).map(|it| Feature::Given(at, it)));
            features.extend(repeated(row).map(|it| Feature::Repeated(at, it)));
        }
        // Neighbours would make sequences of one command.
        let mut source = Source(Rng::for_component(0, "features"));
        source.shuffle(&mut features);
        Self {
            table,
            groups,
            features,
        }
    }

    /// How many sequences of so many requests draw every feature, whatever the first seed.
    pub fn enough(&self, requests: usize) -> u64 {
        self.features.len().div_ceil(forced(requests).max(1)) as u64
    }

    /// The sequence of a seed, with about so many requests.
    pub fn sequence(&self, seed: u64, requests: usize, coverage: &mut Coverage) -> Sequence {
        if self.features.is_empty() {
            return Sequence {
                seed,
                steps: Vec::new(),
            };
        }
        Draw {
            generator: self,
            source: Source(Rng::for_component(seed, "sequence")),
            coverage,
            steps: Vec::new(),
            live: Vec::new(),
            connections: 0,
            linked: None,
        }
        .sequence(seed, requests)
    }

    /// What no sequence had: rows and options by name.
    pub fn missed(&self, coverage: &Coverage) -> Vec<String> {
        let missed = self
            .features
            .iter()
            .filter(|it| !coverage.features.contains(it));
        let mut missed: Vec<String> = missed.map(|it| self.name(*it)).collect();
        missed.sort();
        let unmade = Mistake::ALL
            .iter()
            .filter(|it| !coverage.mistakes.contains_key(it));
        missed.extend(unmade.map(|it| format!("mistake {it:?}")));
        missed
    }

    /// The names of the commands that it sends.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let rows = self.groups.values().flatten();
        rows.map(|row| &*self.table.rows[*row].name)
    }

    /// How many rows and options there are to draw.
    pub fn features(&self) -> usize {
        self.features.len()
    }

    fn name(&self, feature: Feature) -> String {
        let argument = |row: &Row, id: usize| {
            let mut arguments = row.each_argument().into_iter();
            let found = arguments.find(|it| it.id == id);
            found.map_or_else(String::new, |it| {
                it.token.clone().unwrap_or_else(|| it.name.clone())
            })
        };
        match feature {
            Feature::Row(at) => self.table.rows[at].name.clone(),
            Feature::Given(at, id) => {
                let row = &self.table.rows[at];
                format!("{} {}", row.name, argument(row, id))
            }
            Feature::Repeated(at, id) => {
                let row = &self.table.rows[at];
                format!("{} {} twice", row.name, argument(row, id))
            }
        }
    }
}

/// Of so many requests, those that are drawn for a feature.
fn forced(requests: usize) -> usize {
    requests / 2
}

/// Arguments that may be left out, and those that are one of several.
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

struct Source(Rng);

impl Source {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound.max(1) as u64) as usize
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    fn pick<'a>(&mut self, pool: &[&'a str]) -> &'a str {
        pool[self.below(pool.len())]
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

/// A connection as the generator sees it.
struct Live {
    number: u32,
    queues: bool,
}

struct Draw<'a, 'g> {
    generator: &'a Generator<'g>,
    source: Source,
    coverage: &'a mut Coverage,
    steps: Vec<Step>,
    live: Vec<Live>,
    /// Connections so far, those that have ended among them.
    connections: u32,
    /// How many keys a number before them has promised.
    linked: Option<usize>,
}

/// What a request is drawn for: an option to give, and whether twice.
#[derive(Clone, Copy, Default)]
struct Wanted {
    id: Option<usize>,
    twice: bool,
}

impl Draw<'_, '_> {
    fn sequence(mut self, seed: u64, requests: usize) -> Sequence {
        let count = [1, 1, 1, 2, 2, CONNECTIONS_MAX][self.source.below(6)];
        for _ in 0..count {
            let live = self.open();
            self.live.push(live);
        }
        let themes = self.themes();
        self.setup(&themes);
        let features = &self.generator.features;
        let forced = forced(requests);
        let mut due = (0..forced).map(|n| {
            // Sequences with neighbouring seeds draw neighbouring features.
            let at = seed.wrapping_mul(forced as u64).wrapping_add(n as u64);
            features[(at % features.len() as u64) as usize]
        });
        let mut at = 0;
        for n in 0..requests {
            if count > 1 && self.source.percent(35) {
                at = self.source.below(count);
            }
            if n % 2 == 0
                && let Some(feature) = due.next()
            {
                let (row, wanted) = match feature {
                    Feature::Row(row) => (row, Wanted::default()),
                    Feature::Given(row, id) => (
                        row,
                        Wanted {
                            id: Some(id),
                            twice: false,
                        },
                    ),
                    Feature::Repeated(row, id) => (
                        row,
                        Wanted {
                            id: Some(id),
                            twice: true,
                        },
                    ),
                };
                self.coverage.features.insert(feature);
                self.send(at, row, wanted, false);
            } else if self.live[at].queues && self.source.percent(30) {
                let end = if self.source.percent(85) {
                    "EXEC"
                } else {
                    "DISCARD"
                };
                self.live[at].queues = false;
                self.push(at, vec![end.into()]);
            } else {
                let row = self.theme_row(&themes);
                self.send(at, row, Wanted::default(), true);
            }
        }
        Sequence {
            seed,
            steps: self.steps,
        }
    }

    fn open(&mut self) -> Live {
        self.connections += 1;
        if self.source.percent(50) {
            self.steps.push(Step {
                connection: self.connections,
                request: vec![b"HELLO".to_vec(), b"3".to_vec()],
            });
        }
        Live {
            number: self.connections,
            queues: false,
        }
    }

    /// One or two groups that most requests come from, so that they meet.
    fn themes(&mut self) -> Vec<&'static str> {
        let groups: Vec<&str> = self.generator.groups.keys().copied().collect();
        let count = 1 + self.source.below(2);
        let drawn = (0..count).map(|_| groups[self.source.below(groups.len())]);
        let drawn: Vec<&str> = drawn.collect();
        // The names of groups live as long as the table; the list of keys knows the same names.
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
            let chance = if themes.contains(group) { 70 } else { 25 };
            if is_there && self.source.percent(chance) {
                self.steps.push(Step {
                    connection: self.live[0].number,
                    request,
                });
            }
        }
    }

    fn push(&mut self, at: usize, request: Vec<String>) {
        let connection = self.live[at].number;
        let name = request[0].to_ascii_lowercase();
        let request = request.into_iter().map(String::into_bytes).collect();
        self.steps.push(Step {
            connection,
            request,
        });
        match &*name {
            "multi" => self.live[at].queues = true,
            "exec" | "discard" | "reset" => self.live[at].queues = false,
            // What follows comes over another connection.
            "quit" => self.live[at] = self.open(),
            _ => {}
        }
    }

    fn send(&mut self, at: usize, row: usize, wanted: Wanted, may_err: bool) {
        let row = &self.generator.table.rows[row];
        let mut request = self.request(row, wanted);
        if may_err && self.source.percent(25) {
            self.make_mistake(row, &mut request);
        }
        self.push(at, request);
    }

    fn request(&mut self, row: &Row, wanted: Wanted) -> Vec<String> {
        let mut request: Vec<String> = row.name.split('|').map(str::to_owned).collect();
        if self.source.percent(25) {
            request
                .iter_mut()
                .for_each(|word| word.make_ascii_uppercase());
        }
        self.linked = None;
        self.arguments(row, &row.arguments, wanted, &mut request);
        request
    }

    fn arguments(
        &mut self,
        row: &Row,
        arguments: &[Argument],
        wanted: Wanted,
        into: &mut Vec<String>,
    ) {
        // Keys and what belongs to each of them come in equal numbers.
        let is_list = |it: &&Argument| it.multiple && !it.optional && it.token.is_none();
        let before = self.linked;
        if arguments.iter().filter(is_list).count() > 1 {
            self.linked = Some(1 + self.source.below(3));
        }
        let mut pieces: Vec<(bool, Vec<String>)> = Vec::new();
        for argument in arguments {
            let mut piece = Vec::new();
            if self.is_drawn(row, argument, wanted) {
                self.argument(row, argument, wanted, &mut piece);
            }
            let is_option =
                argument.optional && (argument.token.is_some() || argument.kind == Kind::OneOf);
            pieces.push((is_option, piece));
        }
        if self.source.percent(30) {
            // Options have no order.
            let from = pieces.iter().rposition(|(is_option, _)| !is_option);
            let from = from.map_or(0, |at| at + 1);
            self.source.shuffle(&mut pieces[from..]);
        }
        into.extend(pieces.into_iter().flat_map(|(_, piece)| piece));
        if arguments.iter().filter(is_list).count() > 1 {
            self.linked = before;
        }
    }

    fn is_drawn(&mut self, row: &Row, argument: &Argument, wanted: Wanted) -> bool {
        let is_wanted = wanted.id.is_some_and(|id| argument.holds(id));
        if !argument.optional || is_wanted || is_given(row, argument) {
            return true;
        }
        match self.linked {
            Some(count) if argument.multiple && argument.kind == Kind::Key => count > 0,
            _ => self.source.percent(35),
        }
    }

    fn argument(&mut self, row: &Row, argument: &Argument, wanted: Wanted, into: &mut Vec<String>) {
        let is_linked =
            argument.kind == Kind::Key || argument.name == "weight" || !argument.optional;
        let times = match self.linked {
            _ if !argument.multiple => 1,
            Some(count) if is_linked => count,
            _ if wanted.twice && wanted.id == Some(argument.id) => 2,
            _ => [1, 1, 2, 3][self.source.below(4)],
        };
        for time in 0..times {
            if let Some(token) = argument.token.as_ref()
                && (time == 0 || argument.multiple_token)
            {
                let token = if self.source.percent(75) {
                    token.clone()
                } else {
                    token.to_lowercase()
                };
                into.push(token);
            }
            match argument.kind {
                Kind::PureToken => {}
                Kind::Block => self.arguments(row, &argument.arguments, wanted, into),
                Kind::OneOf => {
                    let alternatives = &argument.arguments;
                    let is_wanted = |it: &Argument| wanted.id.is_some_and(|id| it.holds(id));
                    let at = alternatives.iter().position(is_wanted);
                    let at = at.unwrap_or_else(|| self.source.below(alternatives.len()));
                    self.argument(row, &alternatives[at], wanted, into);
                }
                Kind::Key => {
                    let key = self.key(row);
                    into.push(key);
                }
                Kind::Integer if argument.name == "numkeys" => {
                    let count = self
                        .source
                        .below(4)
                        .max(usize::from(row.group != "scripting"));
                    self.linked = Some(count);
                    into.push(if self.source.percent(6) {
                        self.source.pick(ODD).to_owned()
                    } else {
                        count.to_string()
                    });
                }
                Kind::Integer | Kind::Double | Kind::UnixTime | Kind::Text => {
                    self.value(pool(row, argument), into);
                }
            }
        }
    }

    fn key(&mut self, row: &Row) -> String {
        let own = keys_of(&row.group);
        if self.source.percent(8) {
            self.made(Mistake::WrongType);
            return self.source.pick(ANY_KEYS).to_owned();
        }
        self.source.pick(own).to_owned()
    }

    fn value(&mut self, pool: Pool, into: &mut Vec<String>) {
        let is_odd = self.source.percent(15);
        into.push(match pool {
            Pool::Words(_, odd) if is_odd && !odd.is_empty() => {
                self.made(Mistake::Odd);
                self.source.pick(odd).to_owned()
            }
            Pool::Words(usual, _) => self.source.pick(usual).to_owned(),
            Pool::Seconds | Pool::Milliseconds if is_odd => self.source.pick(TTLS).to_owned(),
            Pool::AtSeconds | Pool::AtMilliseconds if is_odd => self.source.pick(TIMES).to_owned(),
            // Drawn from so many that two relative times are never a millisecond apart by chance.
            Pool::Seconds => (1_000 + self.source.below(10_000_000)).to_string(),
            Pool::Milliseconds => (1_000_000 + self.source.below(10_000_000_000)).to_string(),
            Pool::AtSeconds => (4_000_000_000_u64 + self.source.below(5) as u64).to_string(),
            Pool::AtMilliseconds => {
                (4_000_000_000_000_u64 + self.source.below(5) as u64 * 499).to_string()
            }
            Pool::CommandName => {
                let rows = &self.generator.table.rows;
                let name = &rows[self.source.below(rows.len())].name;
                match self.source.below(10) {
                    0 => "nosuch".to_owned(),
                    1 => name.to_uppercase(),
                    _ => name.clone(),
                }
            }
            Pool::Request => {
                let rows = &self.generator.table.rows;
                let row = &rows[self.source.below(rows.len())];
                let linked = self.linked.take();
                let request = if row.arguments.iter().any(|it| it.name == "command") {
                    vec!["get".to_owned(), "s1".to_owned()]
                } else {
                    self.request(row, Wanted::default())
                };
                self.linked = linked;
                into.extend(request);
                return;
            }
        });
    }

    fn made(&mut self, mistake: Mistake) {
        *self.coverage.mistakes.entry(mistake).or_default() += 1;
    }

    fn make_mistake(&mut self, row: &Row, request: &mut Vec<String>) {
        let words = row.name.split('|').count();
        let has_options = row.arguments.iter().any(|it| it.optional);
        let mistake = match self.source.below(8) {
            0 | 1 => Mistake::Missing,
            2 => Mistake::Surplus,
            3 | 4 if has_options => Mistake::Conflict,
            5 => Mistake::Swapped,
            _ => Mistake::Odd,
        };
        // With a number where none was, what would wait for ever waits for a while.
        let waits = row.blocks || row.name == "wait";
        if waits && !matches!(mistake, Mistake::Missing | Mistake::Surplus) {
            return;
        }
        match mistake {
            Mistake::Missing if request.len() > words => {
                let last = request.len() - 1;
                let at = if waits || self.source.percent(60) {
                    last
                } else {
                    words + self.source.below(request.len() - words)
                };
                request.remove(at);
            }
            Mistake::Surplus => request.push(self.source.pick(&["surplus", ""]).to_owned()),
            Mistake::Conflict => {
                let options: Vec<&Argument> =
                    row.arguments.iter().filter(|it| it.optional).collect();
                if options.is_empty() {
                    return;
                }
                let option = options[self.source.below(options.len())];
                self.linked = None;
                self.argument(row, option, Wanted::default(), request);
            }
            Mistake::Odd if request.len() > words => {
                let at = words + self.source.below(request.len() - words);
                request[at] = self.source.pick(ODD).to_owned();
            }
            Mistake::Swapped if request.len() > words + 1 => {
                let at = words + self.source.below(request.len() - words - 1);
                request.swap(at, at + 1);
            }
            _ => return,
        }
        self.made(mistake);
    }
}

const TTLS: &[&str] = &[
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775",
    "abc",
    "",
    "1.5",
    "1e3",
];
const TIMES: &[&str] = &[
    "0",
    "1",
    "-1",
    "1000",
    "9223372036854775807",
    "9223372036854775",
    "-9223372036854775808",
    "abc",
    "",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{backend::redis_server, differential::Peer};

    /// The table of a real server if there is one: it has rows that the double does not have yet.
    fn tables() -> Vec<Table> {
        let mut tables = vec![Peer::double().expect("a double").table().clone()];
        if let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") {
            let real = Peer::real(&program).expect("the server starts");
            tables.push(real.table().clone());
        }
        tables
    }

    #[test]
    fn every_row_and_option_is_drawn() {
        for table in tables() {
            let generator = Generator::new(&table, "");
            assert!(generator.features() > 150, "{}", generator.features());
            for first in [0, 1_000_003] {
                let mut coverage = Coverage::default();
                let enough = generator.enough(40);
                let mut sent: BTreeSet<String> = BTreeSet::new();
                for seed in first..first + enough {
                    let sequence = generator.sequence(seed, 40, &mut coverage);
                    let names = sequence
                        .steps
                        .iter()
                        .map(|step| table.name_of(&step.request));
                    sent.extend(names);
                }
                assert_eq!(generator.missed(&coverage), Vec::<String>::new());
                // Not only counted, but in the requests.
                for row in generator.groups.values().flatten() {
                    let name = &table.rows[*row].name;
                    assert!(sent.contains(name), "{name} is not in any request");
                }
            }
        }
    }

    #[test]
    fn an_option_that_is_wanted_is_in_the_request() {
        for table in tables() {
            let generator = Generator::new(&table, "");
            let mut coverage = Coverage::default();
            let mut draw = Draw {
                generator: &generator,
                source: Source(Rng::new(7)),
                coverage: &mut coverage,
                steps: Vec::new(),
                live: Vec::new(),
                connections: 0,
                linked: None,
            };
            for row in &table.rows {
                for argument in row.each_argument() {
                    let Some(token) = argument.token.as_ref() else {
                        continue;
                    };
                    let wanted = Wanted {
                        id: Some(argument.id),
                        twice: false,
                    };
                    let request = draw.request(row, wanted);
                    let has = request.iter().any(|word| word.eq_ignore_ascii_case(token));
                    assert!(has, "{token} is not in {request:?}");
                }
            }
        }
    }

    #[test]
    fn equal_seeds_give_equal_sequences() {
        let tables = tables();
        let generator = Generator::new(&tables[0], "");
        let draw = |seed| generator.sequence(seed, 40, &mut Coverage::default());
        assert_eq!(draw(3), draw(3));
        assert_ne!(draw(3).steps, draw(4).steps);
    }

    #[test]
    fn every_hint_is_of_use() {
        let tables = tables();
        let rows = || tables.iter().flat_map(|table| &table.rows);
        // Hints for commands that are not implemented yet can only be checked beside a real server.
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
