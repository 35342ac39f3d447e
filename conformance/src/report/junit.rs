//! Results as JUnit XML for build servers: a test suite per subject, a test case per property.

use super::{Group, shown, terminal, verdict};
use crate::{
    checker::Property,
    runner::{Outcome, Trial},
    subject::Expected,
};
use std::fmt::{self, Write};

/// Formats the whole document.
#[must_use]
pub fn document(trials: &[Trial]) -> String {
    let mut xml = String::new();
    // Writing to a string does not fail.
    let _ = write_document(&mut xml, trials);
    xml
}

fn write_document(out: &mut String, trials: &[Trial]) -> fmt::Result {
    let suites: Vec<Vec<Case>> = trials.iter().map(cases).collect();
    let count = |of: fn(&Said) -> bool| {
        let cases = suites.iter().flatten();
        cases.filter(|case| of(&case.said)).count()
    };
    let seconds: f64 = trials.iter().map(|it| it.elapsed.as_secs_f64()).sum();
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"redouble-check\" \
         tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\">",
        count(|_| true),
        count(Said::failed),
        count(Said::skipped),
    )?;
    for (trial, cases) in trials.iter().zip(&suites) {
        write_suite(out, trial, cases)?;
    }
    out.push_str("</testsuites>\n");
    Ok(())
}

struct Case {
    name: String,
    said: Said,
}

enum Said {
    Passed,
    Skipped(&'static str),
    Failed { message: String, text: String },
}

impl Said {
    const fn failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    const fn skipped(&self) -> bool {
        matches!(self, Self::Skipped(_))
    }
}

/// Returns a case per judged property, and one for the conviction of a subject that has to be convicted.
fn cases(trial: &Trial) -> Vec<Case> {
    let judged = Property::ALL.into_iter();
    let judged = judged.filter(|&property| trial.plan.judges(property));
    let mut cases: Vec<Case> = judged
        .filter_map(|property| {
            let total = trial.total(property);
            let said = if matches!(trial.expected, Expected::Sound) && total.broken > 0 {
                failure(trial, property)
            } else if total.held + total.outside + total.broken > 0 {
                Said::Passed
            } else if total.unknown > 0 {
                Said::Skipped("no run had enough evidence to judge it")
            } else {
                return None;
            };
            let name = property.to_string();
            Some(Case { name, said })
        })
        .collect();
    if trial.fixed.compared > 0 {
        let name = "has the same verdicts on the double".to_owned();
        let told = trial.fixed.disagreements.iter().map(ToString::to_string);
        let told: Vec<String> = told.collect();
        let said = match told.len() {
            0 => Said::Passed,
            count => Said::Failed {
                message: format!("{count} verdicts differ"),
                text: told.join("\n"),
            },
        };
        cases.push(Case { name, said });
    }
    if let Expected::Convicted(of) = trial.expected {
        let ids: Vec<&str> = of.iter().map(|property| property.id()).collect();
        let said = match trial.outcome() {
            Outcome::AsExpected => Said::Passed,
            Outcome::Open => Said::Skipped("too few runs to expect it"),
            Outcome::Differs => Said::Failed {
                message: verdict(trial),
                text: format!("{} runs did not convict it", trial.coverage.runs),
            },
        };
        let name = format!("is convicted of {}", ids.join(" or "));
        cases.push(Case { name, said });
    }
    cases
}

fn failure(trial: &Trial, property: Property) -> Said {
    let mut examples = trial.counterexamples.iter();
    let example = examples.find(|example| example.property == property);
    let witness = example.and_then(|example| example.judged.witness(property));
    let message = witness.map_or_else(|| "broken".to_owned(), |it| it.message.clone());
    let mut text = Vec::new();
    if let Some(example) = example {
        // Writing to a vector does not fail.
        let _ = terminal::counterexample(&mut text, trial, example);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    Said::Failed { message, text }
}

fn write_suite(out: &mut String, trial: &Trial, cases: &[Case]) -> fmt::Result {
    let count = |of: fn(&Said) -> bool| cases.iter().filter(|case| of(&case.said)).count();
    let (name, id) = (escape(&shown(trial.name)), escape(trial.name));
    writeln!(
        out,
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
        cases.len(),
        count(Said::failed),
        count(Said::skipped),
        trial.elapsed.as_secs_f64(),
    )?;
    let group = Group::of(trial.name).id();
    writeln!(
        out,
        "    <properties><property name=\"backend\" value=\"{}\"/><property name=\"runs\" \
         value=\"{}\"/></properties>",
        escape(&trial.backend),
        trial.coverage.runs,
    )?;
    for case in cases {
        let of = escape(&case.name);
        write!(
            out,
            "    <testcase classname=\"redouble.{group}.{id}\" name=\"{of}\""
        )?;
        match &case.said {
            Said::Passed => out.push_str("/>\n"),
            Said::Skipped(why) => {
                writeln!(out, "><skipped message=\"{}\"/></testcase>", escape(why))?
            }
            Said::Failed { message, text } => writeln!(
                out,
                "><failure message=\"{}\">{}</failure></testcase>",
                escape(message),
                escape(text)
            )?,
        }
    }
    out.push_str("  </testsuite>\n");
    Ok(())
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            // XML cannot represent control characters.
            other if other.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_has_no_control_characters() {
        assert_eq!(
            escape("a<b & \"c\"\u{1b}\n"),
            "a&lt;b &amp; &quot;c&quot;\u{fffd}\n"
        );
    }
}
