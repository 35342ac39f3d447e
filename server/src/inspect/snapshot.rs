//! All data of a server at one instant: kept, compared, put back.

use crate::engine::{Engine, Image, UnixMicros};
use crate::resp::quoted;
use crate::server::Server;
use std::fmt;

/// All databases of a server at one instant, and its libraries of functions. Deadlines are points in time and stay what they
/// were.
///
/// ```
/// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
///
/// let server = redouble::Server::start().await?;
/// let mut redis = server.connection().await?;
/// redis.set("stock:7", 3).await?;
/// let fixture = server.snapshot();
/// redis.decr("stock:7", 1).await?;
/// redis.set("order:1", "stock:7").await?;
/// assert_eq!(
///     fixture.diff(&server.snapshot()),
///     "+ 0 \"order:1\" = \"stock:7\"\n- 0 \"stock:7\" = \"3\"\n+ 0 \"stock:7\" = \"2\"\n",
/// );
/// server.restore(&fixture);
/// assert_eq!(server.get("stock:7").as_deref(), Some(&b"3"[..]));
/// server.assert_keys(["stock:7"]);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(test()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot(Image);

impl Snapshot {
    pub(crate) fn of(engine: &Engine) -> Self {
        Self(engine.image())
    }

    pub(crate) fn put_into(&self, engine: &mut Engine, now: UnixMicros) {
        engine.restore_image(&self.0, now);
    }

    /// One line per key: database, key, value, deadline. One line per library: name, code.
    fn lines(&self) -> Vec<(String, String)> {
        let libraries = self.0.library_texts().map(|(name, code)| {
            let place = format!("library {}", quoted(name));
            (place, quoted(code).to_string())
        });
        let databases = self.0.databases().iter().enumerate();
        databases
            .flat_map(|(index, db)| {
                db.contents(None)
                    .into_iter()
                    .map(move |(key, stored)| (format!("{index} {}", quoted(&key)), stored))
            })
            .map(|(place, stored)| (place, stored.to_string()))
            .chain(libraries)
            .collect()
    }

    /// The difference to `other`: a line for each value to remove (`-`) or to add (`+`), sorted by key;
    /// empty when nothing differs.
    pub fn diff(&self, other: &Self) -> String {
        let (before, after) = (self.lines(), other.lines());
        let missing = |line: &&(String, String), lines: &[(String, String)]| !lines.contains(line);
        let gone = before.iter().filter(|line| missing(line, &after));
        let come = after.iter().filter(|line| missing(line, &before));
        let mut lines: Vec<_> = gone
            .map(|line| (line, '-'))
            .chain(come.map(|line| (line, '+')))
            .collect();
        lines.sort_by(|((place, _), sign), ((other, _), other_sign)| {
            place.cmp(other).then(other_sign.cmp(sign))
        });
        let line = |((place, value), sign): (&(String, String), char)| {
            format!("{sign} {place} = {value}\n")
        };
        lines.into_iter().map(line).collect()
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines()
            .iter()
            .try_for_each(|(place, value)| writeln!(f, "{place} = {value}"))
    }
}

impl Server {
    /// Keeps all data as they are now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.handle.shared.node().engine)
    }

    /// Puts all data back. To clients it looks like FLUSHALL and the writing of all keys at one
    /// instant: their watched keys have changed, and clients that wait for a key that now exists are
    /// served.
    pub fn restore(&self, snapshot: &Snapshot) {
        let now = self.handle.now();
        let shared = &self.handle.shared;
        shared
            .node()
            .change(shared, now, |engine, now| snapshot.put_into(engine, now));
    }
}
