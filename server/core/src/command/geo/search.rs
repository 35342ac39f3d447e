//! Searches for the members in a circle or a box: GEOSEARCH, GEORADIUS and their variants
//! (`geo.c: georadiusGeneric`).

use super::area::{Region, Shape};
use super::cell::Position;
use super::{ACCESS, RO, STORE, distance_reply, double_of, position, position_reply, row, unit};
use crate::command::partial_sort::sort_range;
use crate::command::sorted_set::range::overwrite;
use crate::command::spec::{CommandResult, CommandSpec};
use crate::command::{Args, CommandError};
use crate::engine::{Ctx, SortedSet};
use crate::resp::{Blob, Reply};
use std::cmp::Ordering;

/// A command of the family, which decides about its arguments.
#[derive(Clone, Copy, PartialEq)]
enum SearchCommand {
    /// The centre and the circle come first. STORE may follow.
    Radius { stores: bool },
    /// The same around a member.
    RadiusByMember { stores: bool },
    /// The centre and the shape are options.
    Search,
    /// The same, after the key for the result.
    SearchStore,
}

impl SearchCommand {
    fn may_store(self) -> bool {
        matches!(
            self,
            Self::Radius { stores: true } | Self::RadiusByMember { stores: true }
        )
    }

    fn is_search(self) -> bool {
        matches!(self, Self::Search | Self::SearchStore)
    }
}

/// A length in the unit that the request names.
#[derive(Clone, Copy)]
struct Measured {
    shape: Shape,
    /// The unit in metres.
    metres: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Sort {
    Ascending,
    Descending,
}

/// The centre of a search.
#[derive(Clone, Copy)]
enum Centre {
    Coordinates(Position),
    /// A member's position; `None` if the key is missing.
    Member(Option<Position>),
}

impl Centre {
    fn position(self) -> Option<Position> {
        match self {
            Self::Coordinates(position) => Some(position),
            Self::Member(position) => position,
        }
    }
}

/// A request of this family.
struct Query<'a> {
    centre: Option<Centre>,
    measured: Option<Measured>,
    with_distance: bool,
    with_score: bool,
    with_position: bool,
    sort: Option<Sort>,
    /// COUNT; 0 for all.
    count: usize,
    /// COUNT takes any members, not the nearest.
    any: bool,
    store: Option<&'a [u8]>,
    /// The distance is stored as the score.
    store_distance: bool,
}

/// Parses a number; an error if it is missing.
fn length(text: &[u8], what: &'static str) -> Result<f64, CommandError> {
    double_of(text).map_err(|_| CommandError::Text(what.into()))
}

/// `geo.c: extractDistanceOrReply`.
fn circle(args: &mut Args<'_>) -> Result<Measured, CommandError> {
    let radius = length(args.required()?, "ERR need numeric radius")?;
    if radius < 0.0 {
        return Err(CommandError::Text("ERR radius cannot be negative".into()));
    }
    let metres = unit(args)?;
    let shape = Shape::Circle {
        radius: radius * metres,
    };
    Ok(Measured { shape, metres })
}

/// `geo.c: extractBoxOrReply`.
fn rectangle(args: &mut Args<'_>) -> Result<Measured, CommandError> {
    let width = length(args.required()?, "ERR need numeric width")?;
    let height = length(args.required()?, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::Text(
            "ERR height or width cannot be negative".into(),
        ));
    }
    let metres = unit(args)?;
    let shape = Shape::Box {
        width: width * metres,
        height: height * metres,
    };
    Ok(Measured { shape, metres })
}

/// The next argument as the member in the centre.
fn member(args: &mut Args<'_>, set: Option<&SortedSet>) -> Result<Centre, CommandError> {
    let member = args.required()?;
    let Some(set) = set else {
        return Ok(Centre::Member(None));
    };
    let score = set
        .score(member)
        .ok_or_else(|| CommandError::Text("ERR could not decode requested zset member".into()))?;
    Ok(Centre::Member(Some(Position::of_score(score))))
}

impl<'a> Query<'a> {
    fn parse(
        args: &mut Args<'a>,
        form: SearchCommand,
        set: Option<&SortedSet>,
        store: Option<&'a [u8]>,
    ) -> Result<Self, CommandError> {
        let mut query = Self {
            centre: None,
            measured: None,
            with_distance: false,
            with_score: false,
            with_position: false,
            sort: None,
            count: 0,
            any: false,
            store,
            store_distance: false,
        };
        match form {
            SearchCommand::Radius { .. } => {
                query.centre = Some(Centre::Coordinates(position(args)?));
                query.measured = Some(circle(args)?);
            }
            SearchCommand::RadiusByMember { .. } => {
                query.centre = Some(member(args, set)?);
                if set.is_some() {
                    query.measured = Some(circle(args)?);
                } else {
                    // Then Redis ignores radius and unit.
                    args.next();
                    args.next();
                }
            }
            SearchCommand::Search | SearchCommand::SearchStore => {}
        }
        while !args.is_empty() {
            if !(query.flag(args, form)
                || query.option(args, form)?
                || query.place(args, form, set)?)
            {
                return Err(CommandError::Syntax);
            }
        }
        query.check(args, form)?;
        Ok(query)
    }

    /// Reads an option of one word, if the next argument is one.
    fn flag(&mut self, args: &mut Args<'a>, form: SearchCommand) -> bool {
        match () {
            () if args.keyword("WITHDIST") => self.with_distance = true,
            () if args.keyword("WITHHASH") => self.with_score = true,
            () if args.keyword("WITHCOORD") => self.with_position = true,
            () if args.keyword("ANY") => self.any = true,
            () if args.keyword("ASC") => self.sort = Some(Sort::Ascending),
            () if args.keyword("DESC") => self.sort = Some(Sort::Descending),
            () if form == SearchCommand::SearchStore && args.keyword("STOREDIST") => {
                self.store_distance = true;
            }
            () => return false,
        }
        true
    }

    /// Reads COUNT, STORE or STOREDIST with its value, if it is the next argument.
    fn option(&mut self, args: &mut Args<'a>, form: SearchCommand) -> Result<bool, CommandError> {
        if args.remaining() < 2 {
            return Ok(false);
        }
        if args.keyword("COUNT") {
            let count = args.integer()?;
            if count <= 0 {
                return Err(CommandError::Text("ERR COUNT must be > 0".into()));
            }
            self.count = usize::try_from(count).unwrap_or(usize::MAX);
            return Ok(true);
        }
        if !form.may_store() {
            return Ok(false);
        }
        let stores_distance = match () {
            () if args.keyword("STORE") => false,
            () if args.keyword("STOREDIST") => true,
            () => return Ok(false),
        };
        (self.store, self.store_distance) = (args.next(), stores_distance);
        Ok(true)
    }

    /// Reads the centre or the shape of a GEOSEARCH, if it is next.
    fn place(
        &mut self,
        args: &mut Args<'a>,
        form: SearchCommand,
        set: Option<&SortedSet>,
    ) -> Result<bool, CommandError> {
        if !form.is_search() {
            return Ok(false);
        }
        let is_at_coordinates = matches!(self.centre, Some(Centre::Coordinates(_)));
        let is_at_member = matches!(self.centre, Some(Centre::Member(_)));
        let is_around = |wanted: fn(&Shape) -> bool| {
            self.measured
                .is_some_and(|measured| wanted(&measured.shape))
        };
        let is_box = is_around(|shape| matches!(shape, Shape::Box { .. }));
        let is_circle = is_around(|shape| matches!(shape, Shape::Circle { .. }));
        let left = args.remaining();
        match () {
            () if left > 1 && !is_at_coordinates && args.keyword("FROMMEMBER") => {
                self.centre = Some(member(args, set)?);
            }
            () if left > 2 && !is_at_member && args.keyword("FROMLONLAT") => {
                self.centre = Some(Centre::Coordinates(position(args)?));
            }
            () if left > 2 && !is_box && args.keyword("BYRADIUS") => {
                self.measured = Some(circle(args)?);
            }
            () if left > 3 && !is_circle && args.keyword("BYBOX") => {
                self.measured = Some(rectangle(args)?);
            }
            () => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses incompatible options.
    fn check(&self, args: &Args<'_>, form: SearchCommand) -> Result<(), CommandError> {
        if self.store.is_some() && (self.with_distance || self.with_score || self.with_position) {
            let what = if form == SearchCommand::SearchStore {
                "GEOSEARCHSTORE"
            } else {
                "STORE option in GEORADIUS"
            };
            let text = format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            );
            return Err(CommandError::Text(text.into()));
        }
        let name = args.request().name();
        if form.is_search() && self.centre.is_none() {
            let text = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(CommandError::echoing(text, name, ""));
        }
        if form.is_search() && self.measured.is_none() {
            let text = "ERR exactly one of BYRADIUS and BYBOX can be specified for ";
            return Err(CommandError::echoing(text, name, ""));
        }
        if self.any && self.count == 0 {
            return Err(CommandError::Text(
                "ERR the ANY argument requires COUNT argument".into(),
            ));
        }
        Ok(())
    }

    /// Returns the members in the region, up to COUNT, in the requested order.
    fn search(&self, set: &SortedSet) -> Vec<Found> {
        let centre = self.centre.and_then(Centre::position);
        let (Some(centre), Some(Measured { shape, metres })) = (centre, self.measured) else {
            return Vec::new();
        };
        let limit = if self.any { self.count } else { usize::MAX };
        let mut found = members_within(set, &Region { centre, shape }, limit);
        let wanted = match self.count {
            0 => found.len(),
            count => count.min(found.len()),
        };
        // Without ANY, COUNT means the nearest members.
        let nearest_first = (self.count > 0 && !self.any).then_some(Sort::Ascending);
        if let Some(sort) = self.sort.or(nearest_first) {
            let compare = |a: &Found, b: &Found| match sort {
                Sort::Ascending => a.nearer(b),
                Sort::Descending => b.nearer(a),
            };
            if wanted == found.len() {
                found.sort_by(compare);
            } else {
                sort_range(&mut found, 0..wanted, compare);
            }
        }
        found.truncate(wanted);
        for one in &mut found {
            one.distance /= metres;
        }
        found
    }

    fn reply(&self, found: Vec<Found>) -> Reply {
        let with_options = self.with_distance || self.with_score || self.with_position;
        let reply = |one: Found| {
            let member = Reply::Bulk(one.member);
            if !with_options {
                return member;
            }
            let distance = self.with_distance.then(|| distance_reply(one.distance));
            let score = self.with_score.then_some(Reply::Int(one.score as i64));
            let position = Position::of_score(one.score);
            let position = self.with_position.then(|| position_reply(position));
            let parts = [Some(member), distance, score, position];
            Reply::Array(parts.into_iter().flatten().collect())
        };
        Reply::Array(found.into_iter().map(reply).collect())
    }
}

/// A member in the region.
struct Found {
    member: Blob,
    score: f64,
    /// From the centre.
    distance: f64,
}

impl Found {
    fn nearer(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance)
    }
}

/// The members in a region, cell by cell, at most `limit`.
fn members_within(set: &SortedSet, region: &Region, limit: usize) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for cell in region.cells() {
        if found.len() >= limit {
            break;
        }
        let (first, behind) = cell.scores();
        let start = set.rank_where_score(|score| score < first);
        let end = set.rank_where_score(|score| score < behind);
        set.for_each(start..end, false, |member, score| {
            if found.len() >= limit {
                return;
            }
            let distance = region.distance_within(Position::of_score(score));
            found.extend(distance.map(|distance| Found {
                member,
                score,
                distance,
            }));
        });
    }
    found
}

fn search(ctx: &mut Ctx<'_>, args: &mut Args<'_>, form: SearchCommand) -> CommandResult {
    let destination = match form {
        SearchCommand::SearchStore => Some(args.required()?),
        SearchCommand::Radius { .. }
        | SearchCommand::RadiusByMember { .. }
        | SearchCommand::Search => None,
    };
    let set = ctx.read::<SortedSet>(args.required()?)?;
    let query = Query::parse(args, form, set, destination)?;
    let found = set.map_or_else(Vec::new, |set| query.search(set));
    let Some(destination) = query.store else {
        return Ok(query.reply(found));
    };
    let count = found.len();
    let element = |one: Found| {
        let score = if query.store_distance {
            one.distance
        } else {
            one.score
        };
        (one.member, score)
    };
    let elements = found.into_iter().map(element).collect();
    let event = if form.is_search() {
        "geosearchstore"
    } else {
        "georadiusstore"
    };
    if let Some((class, event)) = overwrite(ctx, destination, elements, event) {
        ctx.notify(class, event, destination);
    }
    Ok(Reply::Int(count as i64))
}

fn georadius(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    search(ctx, args, SearchCommand::Radius { stores: true })
}

fn georadius_ro(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    search(ctx, args, SearchCommand::Radius { stores: false })
}

fn georadiusbymember(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    search(ctx, args, SearchCommand::RadiusByMember { stores: true })
}

fn georadiusbymember_ro(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    search(ctx, args, SearchCommand::RadiusByMember { stores: false })
}

fn geosearch(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    search(ctx, args, SearchCommand::Search)
}

fn geosearchstore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    search(ctx, args, SearchCommand::SearchStore)
}

const OVERWRITE: &[&str] = &["OW", "update"];

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("georadius", -6, georadius)
        .flags(STORE)
        .keys(1, 1, 1, ACCESS)
        .keys_after("STORE", 6, 0, 1, 0, OVERWRITE)
        .keys_after("STOREDIST", 6, 0, 1, 0, OVERWRITE)
        .since("3.2.0")
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with `BYRADIUS`")
        .syntax(
            "key longitude:double latitude:double radius:double unit=(M | KM | FT | MI) [WITHCOORD] [WITHDIST] \
             [WITHHASH] [count=(COUNT count:integer [ANY]@6.2.0)] [order=(ASC | DESC)] [STORE key] [STOREDIST key]",
        )
        .summary("The members in a circle around a position."),
    row("georadius_ro", -6, georadius_ro)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("3.2.10")
        .deprecated("6.2.0", "`GEOSEARCH` with `BYRADIUS`")
        .syntax(
            "key longitude:double latitude:double radius:double unit=(M | KM | FT | MI) [WITHCOORD] [WITHDIST] \
             [WITHHASH] [count=(COUNT count:integer [ANY]@6.2.0)] [order=(ASC | DESC)]",
        )
        .summary("The members in a circle around a position, without STORE."),
    row("georadiusbymember", -5, georadiusbymember)
        .flags(STORE)
        .keys(1, 1, 1, ACCESS)
        .keys_after("STORE", 5, 0, 1, 0, OVERWRITE)
        .keys_after("STOREDIST", 5, 0, 1, 0, OVERWRITE)
        .since("3.2.0")
        .deprecated(
            "6.2.0",
            "`GEOSEARCH` and `GEOSEARCHSTORE` with `BYRADIUS` and `FROMMEMBER`",
        )
        .syntax(
            "key member radius:double unit=(M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] \
             [count=(COUNT count:integer [ANY])] [order=(ASC | DESC)] [STORE key] [STOREDIST key]",
        )
        .summary("The members in a circle around a member."),
    row("georadiusbymember_ro", -5, georadiusbymember_ro)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("3.2.10")
        .deprecated("6.2.0", "`GEOSEARCH` with `BYRADIUS` and `FROMMEMBER`")
        .syntax(
            "key member radius:double unit=(M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] \
             [count=(COUNT count:integer [ANY])] [order=(ASC | DESC)]",
        )
        .summary("The members in a circle around a member, without STORE."),
    row("geosearch", -7, geosearch)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("6.2.0")
        .syntax(
            "key from=(FROMMEMBER member | FROMLONLAT longitude_latitude=(longitude:double latitude:double)) \
             by=(circle=(BYRADIUS radius:double unit=(M | KM | FT | MI)) | box=(BYBOX width:double height:double \
             unit=(M | KM | FT | MI))) [order=(ASC | DESC)] [count=(COUNT count:integer [ANY])] [WITHCOORD] \
             [WITHDIST] [WITHHASH]",
        )
        .summary("The members in a circle or a box."),
    row("geosearchstore", -8, geosearchstore)
        .flags(STORE)
        .keys(1, 1, 1, OVERWRITE)
        .keys(2, 2, 1, ACCESS)
        .since("6.2.0")
        .syntax(
            "destination:key source:key from=(FROMMEMBER member | FROMLONLAT \
             longitude_latitude=(longitude:double latitude:double)) by=(circle=(BYRADIUS radius:double unit=(M | KM | \
             FT | MI)) | box=(BYBOX width:double height:double unit=(M | KM | FT | MI))) [order=(ASC | DESC)] \
             [count=(COUNT count:integer [ANY])] [STOREDIST]",
        )
        .summary("Stores the members in a circle or a box."),
];
