//! ACL categories: their names, and sets of them. Knows no command.

/// Names of the categories, in the order of `acl.c: ACLCommandCategories`.
pub(in crate::engine) const CATEGORIES: [&str; 21] = [
    "@keyspace",
    "@read",
    "@write",
    "@set",
    "@sortedset",
    "@list",
    "@hash",
    "@string",
    "@bitmap",
    "@hyperloglog",
    "@geo",
    "@stream",
    "@pubsub",
    "@admin",
    "@fast",
    "@slow",
    "@blocking",
    "@dangerous",
    "@connection",
    "@transaction",
    "@scripting",
];

/// A set of categories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Categories(u32);

impl Categories {
    /// The set of these names, which start with `@`.
    pub(in crate::engine) fn of(names: impl Iterator<Item = &'static str>) -> Self {
        let bits = names.filter_map(|name| {
            let at = CATEGORIES.iter().position(|other| *other == name)?;
            Some(1_u32 << at)
        });
        Self(bits.fold(0, |set, bit| set | bit))
    }

    /// The category with this name, in any case and without `@`; `None` if there is no such category.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        let is_it = |category: &str| category.as_bytes()[1..].eq_ignore_ascii_case(name);
        let at = CATEGORIES.iter().position(|category| is_it(category))?;
        Some(Self(1 << at))
    }

    /// Each category alone, with its name without `@`.
    pub(crate) fn all() -> impl Iterator<Item = (Self, &'static str)> {
        let names = CATEGORIES.iter().enumerate();
        names.map(|(at, name)| (Self(1 << at), &name[1..]))
    }

    /// True if the two sets share a category.
    #[inline]
    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
