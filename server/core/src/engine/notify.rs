//! Keyspace notifications: the classes of events, and the setting that chooses among them.
//!
//! Source: `notify.c`. Knows neither keys nor channels.

/// A class of keyspace events; the letters of `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `g`: DEL, EXPIRE, RENAME ...
    Generic,
    /// `$`
    String,
    /// `l`
    List,
    /// `h`
    Hash,
    /// `s`
    Set,
    /// `z`
    SortedSet,
    /// `t`
    Stream,
    /// `x`: a key ran out.
    Expired,
    /// `e`: a key had to go for want of memory.
    Evicted,
    /// `n`: a key was made.
    New,
    /// `m`: a read found no key.
    Miss,
}

/// The classes for which events are published, and to which kind of channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u32);

/// Letters in the order in which CONFIG GET prints them; `A` stands for the first group.
const LETTERS: &[u8] = b"g$lshzxetdnKEm";
/// Number of classes that `A` stands for.
const ALL_LEN: usize = 10;
/// Number of classes that are not printed beside `A`: 7.0.15 omits the `n` too.
const HIDDEN_BY_ALL: usize = 11;
const ALL: u32 = (1 << ALL_LEN) - 1;

impl Classes {
    /// Reads the setting; `None` for an unknown letter.
    pub fn parse(letters: &[u8]) -> Option<Self> {
        letters.iter().try_fold(Self(0), |classes, letter| {
            let bits = match letter {
                b'A' => ALL,
                letter => 1 << LETTERS.iter().position(|known| known == letter)?,
            };
            Some(Self(classes.0 | bits))
        })
    }

    /// The setting as CONFIG GET prints it (`notify.c: keyspaceEventsFlagsToString`).
    pub fn letters(self) -> String {
        let has_all = self.0 & ALL == ALL;
        let rest = LETTERS
            .iter()
            .enumerate()
            .skip(if has_all { HIDDEN_BY_ALL } else { 0 });
        let rest = rest.filter(|(bit, _)| self.0 & (1 << bit) != 0);
        let rest = rest.map(|(_, letter)| char::from(*letter));
        has_all.then_some('A').into_iter().chain(rest).collect()
    }

    fn has(self, letter: u8) -> bool {
        LETTERS
            .iter()
            .position(|known| *known == letter)
            .is_some_and(|bit| self.0 & (1 << bit) != 0)
    }

    /// Returns true if events of a class are published.
    pub(crate) fn contain(self, class: Class) -> bool {
        self.has(match class {
            Class::Generic => b'g',
            Class::String => b'$',
            Class::List => b'l',
            Class::Hash => b'h',
            Class::Set => b's',
            Class::SortedSet => b'z',
            Class::Stream => b't',
            Class::Expired => b'x',
            Class::Evicted => b'e',
            Class::New => b'n',
            Class::Miss => b'm',
        })
    }

    /// Returns true if events go to `__keyspace@<db>__:<key>`.
    pub(crate) fn by_key(self) -> bool {
        self.has(b'K')
    }

    /// Returns true if events go to `__keyevent@<db>__:<event>`.
    pub(crate) fn by_event(self) -> bool {
        self.has(b'E')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_back_as_redis_prints_them() {
        for (given, printed) in [
            ("", ""),
            ("KEA", "AKE"),
            ("Ex", "xE"),
            ("g$lshzxetdK", "AK"),
            ("KgxEn", "gxnKE"),
            ("AnKEm", "AKEm"),
            ("m", "m"),
        ] {
            let classes = Classes::parse(given.as_bytes()).expect(given);
            assert_eq!(classes.letters(), printed, "{given}");
        }
        assert_eq!(Classes::parse(b"KEw"), None);
    }

    #[test]
    fn a_class_is_found_behind_its_letter() {
        let classes = Classes::parse(b"E$").expect("known letters");
        assert!(classes.contain(Class::String) && classes.by_event());
        assert!(!classes.contain(Class::Generic) && !classes.by_key());
    }
}
