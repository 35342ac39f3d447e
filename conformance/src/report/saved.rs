//! Saved scenarios, and ways to replay them.

use crate::{
    checker::Property,
    runner::{Counterexample, Trial},
    scenario::Scenario,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A scenario to replay, with its lock and the property that it broke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// Name of the subject.
    pub lock: String,
    /// Property that it broke.
    pub property: Property,
    /// The scenario.
    pub scenario: Scenario,
}

impl Saved {
    /// Makes the saved form of a counterexample.
    #[must_use]
    pub fn of(trial: &Trial, example: &Counterexample) -> Self {
        Self {
            lock: trial.name.to_owned(),
            property: example.property,
            scenario: example.scenario.clone(),
        }
    }

    /// Returns the name of its file.
    #[must_use]
    pub fn file_name(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let lock = self.lock.replace(|c| !plain(c), "_");
        format!("{lock}-{}.json", self.property.id())
    }

    /// Returns the JSON form, with one event per line.
    #[must_use]
    pub fn to_json(&self) -> String {
        let (lock, property) = (json!(self.lock), json!(self.property));
        let scenario = self.scenario.to_json();
        format!("{{\"lock\":{lock},\"property\":{property},\"scenario\":{scenario}}}\n")
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// If the text is not JSON, or not a saved scenario that can be played.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let saved: Self = serde_json::from_str(text)?;
        match saved.scenario.flaw() {
            Some(flaw) => Err(serde::de::Error::custom(flaw)),
            None => Ok(saved),
        }
    }

    /// Returns a Rust test that plays it again. `code` makes the [`Check`](crate::Check); without it the test finds the
    /// lock by its name in the list.
    #[must_use]
    pub fn rust_test(&self, code: Option<&str>) -> String {
        let name = self.lock.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let (name, id) = (name.to_lowercase(), self.property.id().to_lowercase());
        let by_name = format!("check_listed({:?})", self.lock);
        let code = code.unwrap_or(&by_name);
        let function = code.split('(').next().unwrap_or_default();
        let placeholder = if code.contains("subject()") {
            "    // The value that you passed to `check`.\n    let subject = || todo!();\n"
        } else {
            ""
        };
        format!(
            "#[test]\nfn {name}_keeps_{id}() {{\n    use redouble_conformance::{function};\n{placeholder}    \
             {code}\n        .scenario(r#\"{}\"#)\n        .assert_sound();\n}}\n",
            self.scenario.to_json()
        )
    }

    /// Returns a shell command that replays it without a file.
    #[must_use]
    pub fn command(&self) -> String {
        let json = self.to_json();
        format!("redouble-check replay - <<'END'\n{json}END\n")
    }
}
