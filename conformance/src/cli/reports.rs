//! Output files for the results of a run.

use super::{Fallible, write_file};
use clap::Args;
use redouble_conformance::{
    report::{Saved, html, json, junit},
    runner::Trial,
};
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// Up to this number of locks, expected counterexamples are shown too.
pub(super) const FEW: usize = 3;

#[derive(Args)]
pub(super) struct Reports {
    /// Also write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the results as JUnit XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Where to write the HTML report; counterexamples are saved beside it.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "target/redouble/report.html"
    )]
    report: PathBuf,
}

impl Reports {
    /// Writes all requested files, and prints their paths.
    pub(super) fn write(&self, trials: &[Trial], out: &mut impl Write) -> Fallible<()> {
        let saved = save(&self.report, trials)?;
        match &*saved {
            [] => {}
            paths if trials.len() <= FEW => {
                for path in paths {
                    writeln!(out, "  replay: redouble-check replay {}", path.display())?;
                }
            }
            [first, ..] => {
                let (count, first) = (saved.len(), first.display());
                writeln!(
                    out,
                    "  {count} counterexamples: redouble-check replay {first} ..."
                )?;
            }
        }
        self.write_pages(trials, out)
    }

    /// Writes the files without scenarios to replay, for locks that are not listed.
    pub(super) fn write_pages(&self, trials: &[Trial], out: &mut impl Write) -> Fallible<()> {
        write_file(&self.report, &html::page(trials))?;
        writeln!(out, "  report: {}", self.report.display())?;
        if let Some(path) = &self.json {
            write_file(path, &json::text(trials))?;
            writeln!(out, "  json: {}", path.display())?;
        }
        if let Some(path) = &self.junit {
            write_file(path, &junit::document(trials))?;
            writeln!(out, "  junit: {}", path.display())?;
        }
        Ok(())
    }
}

/// Saves the counterexamples beside the report.
fn save(report: &Path, trials: &[Trial]) -> Fallible<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for trial in trials {
        for example in &trial.counterexamples {
            let saved = Saved::of(trial, example);
            let path = report.with_file_name(saved.file_name());
            write_file(&path, &saved.to_json())?;
            paths.push(path);
        }
    }
    Ok(paths)
}
