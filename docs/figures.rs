//! The table of scenarios in the book and the figures of the README, generated from the JSON that the benches write.
//! `UPDATE=1 cargo test -p redouble-book --test pages` writes them anew.

use serde_json::Value;
use std::{env, error::Error, fmt::Write as _, fs, path::Path};

type Test = Result<(), Box<dyn Error>>;

fn read(root: &Path, name: &str) -> Result<Value, Box<dyn Error>> {
    let text = fs::read_to_string(root.join("docs/figures").join(name))?;
    Ok(serde_json::from_str(&text)?)
}

fn list<'a>(of: &'a Value, name: &str) -> Result<&'a Vec<Value>, Box<dyn Error>> {
    Ok(of[name]
        .as_array()
        .ok_or_else(|| format!("no list {name}"))?)
}

fn times(ratio: f64) -> String {
    if ratio < 10.0 {
        format!("{ratio:.2}x")
    } else {
        format!("{ratio:.0}x")
    }
}

fn scenarios(scenarios: &Value) -> Result<String, Box<dyn Error>> {
    let mut text = String::from("| scenarios | per core-second | to reach |\n|---|--:|--:|\n");
    for shape in list(scenarios, "shapes")? {
        let target = shape["target"].as_f64();
        let target = target.map_or_else(|| "-".to_owned(), |target| format!("{target:.0}"));
        let title = shape["title"].as_str().unwrap_or_default();
        let rate = shape["per_second"].as_f64().unwrap_or(f64::NAN);
        writeln!(text, "| {title} | {rate:.0} | {target} |")?;
    }
    Ok(text)
}

/// The five figures of the front page: where each comes from.
const HEADLINES: [(&str, &str, &str, &str); 4] = [
    (
        "fresh server in process, against redis-server",
        "start to first PONG",
        "fresh server to first PONG, against starting redis-server",
        " faster",
    ),
    (
        "lock cycle, redouble-lock: in process, against loopback",
        "cycles per second",
        "lock cycles in process, against Redis on loopback",
        "",
    ),
    (
        "SET NX PX, pipeline 16",
        "requests per CPU-second",
        "SET with pipeline 16, requests per CPU-second, against Redis",
        "",
    ),
    (
        "memory of 1 M locks (12 B key, 32 B token, TTL)",
        "resident bytes per lock",
        "memory of a million locks, against Redis",
        "",
    ),
];

fn headlines(compare: &Value, scenarios: &Value) -> Result<String, Box<dyn Error>> {
    let mut text = String::from("| figure | value |\n|---|--:|\n");
    let figures = list(compare, "figures")?;
    for (row, measured, shown, unit) in HEADLINES {
        let of = |it: &&Value| it["row"] == row && it["measured"] == measured;
        let figure = figures
            .iter()
            .find(of)
            .ok_or_else(|| format!("no figure {row}"))?;
        let ratio = figure["ratio"].as_f64().ok_or("no ratio")?;
        writeln!(text, "| {shown} | {}{unit} |", times(ratio))?;
    }
    let contended = &list(scenarios, "shapes")?[0]["per_second"];
    let rate = contended.as_f64().ok_or("no rate")?;
    writeln!(
        text,
        "| contended scenarios of three clients, played and judged per core-second | {rate:.0} |"
    )?;
    Ok(text)
}

/// Compares the part of a page between its marks with a generated text, or replaces it.
pub(super) fn part(path: &Path, mark: &str, text: &str) -> Test {
    let page = fs::read_to_string(path)?;
    let begin = page
        .find(&format!("<!-- {mark}: "))
        .ok_or_else(|| format!("no mark {mark}"))?;
    let begin = begin + page[begin..].find('\n').ok_or("no line")? + 1;
    let end = begin + page[begin..].find("<!-- end -->").ok_or("no end")?;
    if env::var_os("UPDATE").is_some() {
        fs::write(path, format!("{}{text}{}", &page[..begin], &page[end..]))?;
    } else {
        assert!(
            &page[begin..end] == text,
            "the table {mark} of {} is out of date: UPDATE=1 cargo test -p redouble-book --test pages",
            path.display()
        );
    }
    Ok(())
}

#[test]
fn measured_figures_come_from_json() -> Test {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (compare, played) = (read(&root, "compare.json")?, read(&root, "scenarios.json")?);
    let page = root.join("docs/src/benchmarks.md");
    part(&page, "scenarios", &scenarios(&played)?)?;
    part(
        &root.join("README.md"),
        "figures",
        &headlines(&compare, &played)?,
    )
}
