//! Libraries of functions as data: names, code, and the functions that each library has registered.
//!
//! *Invariants.* A [`Library`] never changes. A library that is loaded again is another [`Library`], with upvalues of its own;
//! so the identity of its `Arc` tells whether the code that runs belongs to it. Function names are unique without
//! regard to case, names of libraries with regard to it.
//!
//! Lua is unknown here: `script/` runs the code. Redis keeps libraries in no particular order; here they are sorted by name.

mod flags;
#[cfg(feature = "script")]
mod header;
#[cfg(feature = "script")]
mod payload;

pub(crate) use flags::ScriptFlags;
#[cfg(feature = "script")]
pub(crate) use header::Header;
#[cfg(feature = "script")]
pub(crate) use payload::{dump, restore};

use crate::resp::Blob;
#[cfg(feature = "script")]
use crate::resp::ErrorReply;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A function that a library has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: Blob,
    pub(crate) description: Option<Blob>,
    pub(crate) flags: ScriptFlags,
}

/// A library that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Library {
    pub(crate) name: Blob,
    /// The whole text, with its first line.
    pub(crate) code: Blob,
    /// In the order of registration.
    pub(crate) functions: Box<[Function]>,
}

impl Library {
    /// Bytes of its texts.
    pub(crate) fn size_bytes(&self) -> usize {
        let functions = self.functions.iter();
        let functions = functions
            .map(|one| one.name.len() + one.description.as_ref().map_or(0, |text| text.len()));
        self.name.len() + self.code.len() + functions.sum::<usize>()
    }
}

/// The libraries of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Libraries {
    by_name: BTreeMap<Blob, Arc<Library>>,
    /// The library of each function and the function's place in it, by the name in lower case.
    by_function: HashMap<Box<[u8]>, (Arc<Library>, usize), FixedState>,
    /// Incremented by every change.
    generation: u64,
}

impl Libraries {
    /// The libraries, sorted by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// Removes a library; false if there is none of this name.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let Some(library) = self.by_name.remove(name) else {
            return false;
        };
        self.by_function
            .retain(|_, (owner, _)| !Arc::ptr_eq(owner, &library));
        self.generation += 1;
        true
    }

    /// Adds a library, in the place of one of the same name.
    pub(crate) fn insert(&mut self, library: Arc<Library>) {
        self.remove(&library.name);
        for (place, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase().into_boxed_slice();
            // Two names that differ in case alone: the first one is called.
            self.by_function
                .entry(name)
                .or_insert_with(|| (Arc::clone(&library), place));
        }
        self.by_name.insert(library.name.clone(), library);
        self.generation += 1;
    }

    /// Returns the same libraries, loaded again: their functions start with new upvalues.
    pub(crate) fn anew(&self) -> Self {
        let mut fresh = Self {
            generation: self.generation + 1,
            ..Self::default()
        };
        for library in self.iter() {
            fresh.insert(Arc::new((**library).clone()));
        }
        fresh
    }
}

#[cfg(feature = "script")]
impl Libraries {
    /// Number of libraries.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Number of functions of all libraries.
    pub(crate) fn function_count(&self) -> usize {
        self.iter().map(|library| library.functions.len()).sum()
    }

    /// Changes with every change.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<Library>> {
        self.by_name.get(name)
    }

    /// The names of all libraries.
    pub(crate) fn names(&self) -> Vec<Blob> {
        self.by_name.keys().cloned().collect()
    }

    /// True if this very library is among them.
    pub(crate) fn holds(&self, library: &Arc<Library>) -> bool {
        let found = self.get(&library.name);
        found.is_some_and(|found| Arc::ptr_eq(found, library))
    }

    /// The function of this name in any case, as its library and its place in it.
    #[inline]
    pub(crate) fn function(&self, name: &[u8]) -> Option<(&Arc<Library>, usize)> {
        /// Longer names take an allocation.
        const SHORT_BYTES_MAX: usize = 64;
        let mut short = [0; SHORT_BYTES_MAX];
        let found = match short.get_mut(..name.len()) {
            Some(lower) => {
                lower.copy_from_slice(name);
                lower.make_ascii_lowercase();
                self.by_function.get(&*lower)
            }
            None => self.by_function.get(&*name.to_ascii_lowercase()),
        };
        found.map(|(library, place)| (library, *place))
    }

    /// True if a function of this name belongs to a library of another name than `library`.
    pub(crate) fn has_elsewhere(&self, function: &[u8], library: &[u8]) -> bool {
        let owner = self.function(function);
        owner.is_some_and(|(owner, _)| *owner.name != *library)
    }

    /// The library or function that prevents adding `others` (`functions.c: libraryJoin`).
    pub(crate) fn refuse_joining(&self, others: &Self, replaces: bool) -> Option<ErrorReply> {
        let exists = |what: &str, name: &[u8]| {
            let text = [b"ERR ", what.as_bytes(), b" ", name, b" already exists"].concat();
            Some(ErrorReply::from_bytes(text))
        };
        for library in others.iter() {
            if !replaces && self.get(&library.name).is_some() {
                return exists("Library", &library.name);
            }
        }
        for library in others.iter() {
            for function in &*library.functions {
                // A library that is replaced takes its functions with it.
                let owner = self.function(&function.name);
                if owner.is_some_and(|(owner, _)| others.get(&owner.name).is_none()) {
                    return exists("Function", &function.name);
                }
            }
        }
        None
    }
}

/// True if this may name a library or a function (`functions.c: functionsVerifyName`).
#[cfg(feature = "script")]
pub(crate) fn is_name(name: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    !name.is_empty() && name.iter().all(is_word)
}

/// The error for a name that is none.
#[cfg(feature = "script")]
pub(crate) const BAD_NAME: &str = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

#[cfg(all(test, feature = "script"))]
mod tests {
    use super::*;

    fn library(name: &str, functions: &[&str]) -> Arc<Library> {
        let function = |name: &&str| Function {
            name: Blob::from(*name),
            description: None,
            flags: ScriptFlags::default(),
        };
        Arc::new(Library {
            name: Blob::from(name),
            code: Blob::from("code"),
            functions: functions.iter().map(function).collect(),
        })
    }

    fn of(libraries: &[(&str, &[&str])]) -> Libraries {
        let mut all = Libraries::default();
        for (name, functions) in libraries {
            all.insert(library(name, functions));
        }
        all
    }

    #[test]
    fn functions_are_found_in_any_case_as_long_as_their_library_is_there() {
        let mut all = of(&[("a", &["one", "Two"]), ("b", &["three"])]);
        let found = |all: &Libraries, name: &[u8]| {
            all.function(name)
                .map(|(library, place)| (library.name.to_vec(), place))
        };
        assert_eq!(found(&all, b"TWO"), Some((b"a".to_vec(), 1)));
        assert_eq!((all.len(), all.function_count()), (2, 3));
        all.insert(library("a", &["four"]));
        assert_eq!(found(&all, b"one"), None);
        assert!(all.remove(b"a") && !all.remove(b"a") && !all.remove(b"B"));
        assert_eq!(found(&all, b"four"), None);
        let long = "x".repeat(100);
        all.insert(library("c", &[&long]));
        assert_eq!(
            found(&all, long.to_uppercase().as_bytes()),
            Some((b"c".to_vec(), 0))
        );
    }

    #[test]
    fn joining_refuses_names_that_would_stand_twice() {
        let all = of(&[("a", &["one"]), ("b", &["two"])]);
        let text = |others: &Libraries, replaces| {
            let error = all.refuse_joining(others, replaces);
            error.map(|error| error.text().to_owned())
        };
        let same = of(&[("a", &["other"])]);
        assert_eq!(
            text(&same, false).as_deref(),
            Some("ERR Library a already exists")
        );
        assert_eq!(text(&same, true), None);
        let taken = of(&[("a", &["one", "TWO"])]);
        assert_eq!(
            text(&taken, true).as_deref(),
            Some("ERR Function TWO already exists")
        );
        let swapped = of(&[("a", &["two"]), ("b", &["one"])]);
        assert_eq!(text(&swapped, true), None);
    }

    #[test]
    fn libraries_that_are_loaded_anew_are_others() {
        let all = of(&[("a", &["one"])]);
        let fresh = all.anew();
        let library = all.get(b"a").expect("there");
        assert!(all.holds(library) && !fresh.holds(library));
        assert_eq!(fresh.get(b"a"), Some(library));
    }
}
