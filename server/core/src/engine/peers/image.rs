//! The data of a node on its disk, brought forward unit by unit.

use crate::engine::Db;
use crate::engine::libraries::Libraries;
use crate::engine::peers::journal::{Change, Unit};

/// All units up to the last one that was written for good.
#[derive(Clone, Debug, Default)]
pub struct Image {
    databases: Vec<Db>,
    libraries: Libraries,
}

impl Image {
    pub(crate) fn of(databases: &[Db], libraries: &Libraries) -> Self {
        Self {
            databases: databases.to_vec(),
            libraries: libraries.clone(),
        }
    }

    /// All databases, by their numbers.
    pub fn databases(&self) -> &[Db] {
        &self.databases
    }

    pub(crate) fn libraries(&self) -> &Libraries {
        &self.libraries
    }

    /// The name and the text of each library, sorted by name.
    pub fn library_texts(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.libraries.iter().map(|it| (&*it.name, &*it.code))
    }

    /// Removes all data and all libraries.
    pub fn clear(&mut self) {
        self.databases.iter_mut().for_each(Db::clear);
        self.libraries = Libraries::default();
    }

    /// Writes a unit.
    pub fn apply(&mut self, unit: &Unit) {
        for change in &unit.changes {
            match change.clone() {
                Change::Put {
                    db,
                    key,
                    value,
                    form,
                    deadline,
                } => self.databases[db].put(&key, value, form, deadline),
                Change::Remove { db, key } => {
                    if let Some(slot) = self.databases[db].find(&key) {
                        self.databases[db].remove(slot);
                    }
                }
                Change::Flush { db } => self.databases[db].clear(),
                Change::Swap { first, second } => self.databases.swap(first, second),
                Change::Replace(databases) => self.databases = databases,
                Change::Libraries { removed, added } => {
                    for name in removed {
                        self.libraries.remove(&name);
                    }
                    for library in added {
                        self.libraries.insert(library);
                    }
                }
                Change::Event { .. } | Change::Publish { .. } => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Config, Effect, Engine, NodeApi, UnixMicros};
    use crate::resp::OwnedRequest;
    use std::sync::Arc;

    const START: UnixMicros = UnixMicros(1_000_000_000);

    fn units(engine: &mut Engine) -> Vec<Arc<Unit>> {
        let effects = std::iter::from_fn(|| engine.poll_effect());
        let unit = |effect| {
            if let Effect::Propagate(unit) = effect {
                Some(unit)
            } else {
                None
            }
        };
        effects.filter_map(unit).collect()
    }

    fn written(engine: &mut Engine, lines: &[&str]) -> Vec<Arc<Unit>> {
        let conn = engine.connect("127.0.0.1:5", START).unwrap();
        for line in lines {
            let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
            engine.handle(conn, request.as_request().unwrap(), START);
        }
        units(engine)
    }

    fn has(image: &Image, db: usize, key: &[u8]) -> bool {
        image.databases()[db].find(key).is_some()
    }

    #[test]
    fn holds_what_was_written_for_good() {
        let mut engine = Engine::new(Config::default(), START);
        engine.keep_journal();
        let mut image = engine.image();
        let lines = ["SET a 1", "HSET h f v", "DEL h", "RPUSH l x"];
        for unit in written(&mut engine, &lines).iter().take(2) {
            image.apply(unit);
        }
        assert!(has(&image, 0, b"a") && has(&image, 0, b"h") && !has(&image, 0, b"l"));
    }

    #[test]
    fn keeps_all_databases_when_fewer_are_restored() {
        let mut engine = Engine::new(Config::default(), START);
        engine.keep_journal();
        let mut image = engine.image();
        let one = engine.databases()[..1].to_vec();
        engine.replace_databases(&one, START);
        let mut all = units(&mut engine);
        all.extend(written(&mut engine, &["SELECT 9", "SET k v"]));
        all.iter().for_each(|unit| image.apply(unit));
        assert!(has(&image, 9, b"k"));
    }
}
