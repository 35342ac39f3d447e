//! Draws one request for a row of the command table: its options, their order and their values.

use super::{
    coverage::Feature,
    generate::{Draw, Wanted},
    mistake::Mistake,
    table::{Argument, Kind, Row},
    values::{ANY_KEYS, ODD, Pool, SETTINGS, TIMES, TTLS, is_given, keys_of, pool, undocumented},
};

impl Draw<'_, '_> {
    /// Draws a request for a row and records its features.
    pub(super) fn request(&mut self, at: usize, wanted: Wanted) -> Vec<String> {
        let generator = self.generator;
        let row = &generator.table.rows[at];
        self.row = at;
        self.used.push(Feature::Row(at));
        let mut request: Vec<String> = row.name.split('|').map(str::to_owned).collect();
        if self.source.percent(25) {
            request
                .iter_mut()
                .for_each(|word| word.make_ascii_uppercase());
        }
        self.linked = None;
        self.first_key = None;
        self.arguments(row, &row.arguments, wanted, &mut request);
        if let Some(pool) = undocumented(row) {
            self.value(pool, &mut request);
        }
        request
    }

    /// Adds an option again.
    pub(super) fn again(&mut self, row: &Row, option: &Argument, into: &mut Vec<String>) {
        self.linked = None;
        self.argument(row, option, Wanted::default(), into);
    }

    fn arguments(
        &mut self,
        row: &Row,
        arguments: &[Argument],
        wanted: Wanted,
        into: &mut Vec<String>,
    ) {
        // Keys and their values come in equal numbers.
        let is_list = |it: &&Argument| it.multiple && !it.optional && it.token.is_none();
        let before = self.linked;
        if arguments.iter().filter(is_list).count() > 1 {
            let count = 1 + self.source.below(3);
            self.linked = Some(count.max(1 + usize::from(wanted.twice)));
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
            // Options that exclude each other are then rare.
            _ if self.is_careful && wanted.id.is_some() => self.source.percent(15),
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
        if times > 0 {
            self.used.push(Feature::Given(self.row, argument.id));
        }
        if times > 1 {
            self.used.push(Feature::Repeated(self.row, argument.id));
        }
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
                    let least = match wanted {
                        Wanted { twice: true, .. } => 2,
                        Wanted { id: Some(_), .. } => 1,
                        Wanted { .. } => usize::from(row.group != "scripting"),
                    };
                    let count = self.source.below(4).max(least);
                    self.linked = Some(count);
                    into.push(if !self.is_careful && self.source.percent(6) {
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
        let key = if !self.is_careful && self.source.percent(4) {
            self.made(Mistake::WrongType);
            self.source.pick(ANY_KEYS)
        } else {
            self.source.pick(own)
        };
        self.first_key.get_or_insert_with(|| key.to_owned());
        key.to_owned()
    }

    fn value(&mut self, pool: Pool, into: &mut Vec<String>) {
        let is_odd = !self.is_careful && self.source.percent(8);
        into.push(match pool {
            Pool::Words(_, odd) if is_odd && !odd.is_empty() => {
                self.made(Mistake::Odd);
                self.source.pick(odd).to_owned()
            }
            Pool::Words(usual, _) => self.source.pick(usual).to_owned(),
            Pool::Seconds | Pool::Milliseconds if is_odd => self.source.pick(TTLS).to_owned(),
            Pool::AtSeconds | Pool::AtMilliseconds if is_odd => self.source.pick(TIMES).to_owned(),
            // The range is large, so that two relative times hardly ever lie within a millisecond.
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
                let (row, linked, used) = (self.row, self.linked.take(), self.used.len());
                let first_key = self.first_key.take();
                let rows = &self.generator.table.rows;
                let mut at = self.source.below(rows.len());
                // COMMAND GETKEYS of a command without keys is an error.
                while !rows[at].has_keys() && self.source.percent(90) {
                    at = self.source.below(rows.len());
                }
                let is_nested = undocumented(&self.generator.table.rows[at]).is_some();
                let request = if is_nested {
                    vec!["get".to_owned(), "s1".to_owned()]
                } else {
                    self.request(at, Wanted::default())
                };
                // The command is named, not executed.
                self.used.truncate(used);
                (self.row, self.linked, self.first_key) = (row, linked, first_key);
                into.extend(request);
                return;
            }
            Pool::Setting => {
                let (mut name, mut values) = SETTINGS[self.source.below(SETTINGS.len())];
                while self.counts_uses && name == "maxmemory-policy" {
                    (name, values) = SETTINGS[self.source.below(SETTINGS.len())];
                }
                let value = self.source.pick(values);
                into.extend([name.to_owned(), value.to_owned()]);
                return;
            }
            Pool::Nothing => return,
        });
    }
}
