//! The tables of benchmarks in the book and the figures of the README, generated from the JSON that the benches write.
//! `docs/measure.sh` measures and writes them anew; `UPDATE=1 cargo test -p redouble-book --test pages` only writes them.

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

/// One line about where and when the figures of a file were measured.
fn machine(of: &Value) -> String {
    let machine = &of["machine"];
    let text = |name: &str| machine[name].as_str().unwrap_or("unknown");
    format!(
        "Measured on {}: {} cores of {}, Linux {}, load {} before the first measurement.\n\n",
        text("date"),
        machine["cores"],
        text("processor"),
        text("kernel"),
        text("load"),
    )
}

fn rate(value: f64) -> String {
    if value >= 1e6 {
        format!("{:.2} M/s", value / 1e6)
    } else {
        format!("{:.1} k/s", value / 1e3)
    }
}

fn duration(seconds: f64) -> String {
    if seconds >= 1e-3 {
        format!("{:.2} ms", seconds * 1e3)
    } else if seconds >= 1e-5 {
        format!("{:.0} us", seconds * 1e6)
    } else {
        format!("{:.0} ns", seconds * 1e9)
    }
}

/// The middle one of the rounds of a figure.
fn middle(rounds: &Value) -> Option<f64> {
    let mut rounds: Vec<f64> = rounds
        .as_array()?
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    rounds.sort_by(f64::total_cmp);
    let half = rounds.len() / 2;
    match rounds.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(rounds[half]),
        _ => Some(rounds[half - 1].midpoint(rounds[half])),
    }
}

fn shown(figure: &Value, server: &str) -> String {
    let Some(value) = middle(&figure[server]) else {
        return "-".to_owned();
    };
    match figure["unit"].as_str() {
        Some("1/s") => rate(value),
        Some("s") => duration(value),
        _ => format!("{value:.0} B"),
    }
}

fn ratio(figure: &Value) -> String {
    figure["ratio"]
        .as_f64()
        .map_or_else(|| "-".to_owned(), times)
}

const PER_CPU_SECOND: &str = "requests per CPU-second";
const PER_SECOND: &str = "requests per second";
const LATENCY: &str = "latency, p99";
const ABOVE_FLOOR: &str = "CPU time per request above the do-nothing server";
const FLOOR: &str = "CPU time per request of the do-nothing server";

/// The rows under load: one line for each, from four figures.
fn under_load(compare: &Value) -> Result<String, Box<dyn Error>> {
    let figures = list(compare, "figures")?;
    let mut text = machine(compare);
    text.push_str(
        "| requests | Redis, per CPU-second | redouble | ratio | above the do-nothing server | to reach | per second | p99 |\n\
         |---|--:|--:|--:|--:|---|--:|--:|\n",
    );
    for figure in figures.iter().filter(|it| it["measured"] == PER_CPU_SECOND) {
        let of_row = |measured: &str| {
            let mut all = figures.iter();
            all.find(|it| it["row"] == figure["row"] && it["measured"] == measured)
        };
        let ratio_of = |measured: &str| of_row(measured).map_or_else(|| "-".to_owned(), ratio);
        let target = of_row(ABOVE_FLOOR).and_then(|it| it["target"].as_str());
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            figure["row"].as_str().unwrap_or_default(),
            shown(figure, "redis"),
            shown(figure, "redouble"),
            ratio(figure),
            ratio_of(ABOVE_FLOOR),
            target.unwrap_or("-"),
            ratio_of(PER_SECOND),
            ratio_of(LATENCY),
        )?;
    }
    Ok(text)
}

/// What is not under load: times of starts, memory, lock cycles of one client.
fn others(compare: &Value) -> Result<String, Box<dyn Error>> {
    let mut text = String::from(
        "| what | measured | Redis | redouble | ratio | to reach |\n|---|---|--:|--:|--:|---|\n",
    );
    let of_load = [PER_CPU_SECOND, PER_SECOND, LATENCY, ABOVE_FLOOR, FLOOR];
    for figure in list(compare, "figures")? {
        let measured = figure["measured"].as_str().unwrap_or_default();
        if of_load.contains(&measured) {
            continue;
        }
        writeln!(
            text,
            "| {} | {measured} | {} | {} | {} | {} |",
            figure["row"].as_str().unwrap_or_default(),
            shown(figure, "redis"),
            shown(figure, "redouble"),
            ratio(figure),
            figure["target"].as_str().unwrap_or("-"),
        )?;
    }
    Ok(text)
}

/// The figures that miss their targets.
fn missed(compare: &Value, scenarios: &Value) -> Result<String, Box<dyn Error>> {
    let mut text = String::from(
        "| what misses its target | measured | figure | to reach |\n|---|---|--:|---|\n",
    );
    let figures = list(compare, "figures")?.iter();
    for figure in figures.filter(|it| it["met"] == false) {
        writeln!(
            text,
            "| {} | {} | {} | {} |",
            figure["row"].as_str().unwrap_or_default(),
            figure["measured"].as_str().unwrap_or_default(),
            ratio(figure),
            figure["target"].as_str().unwrap_or("-"),
        )?;
    }
    for shape in list(scenarios, "shapes")? {
        let (Some(rate), Some(target)) = (shape["per_second"].as_f64(), shape["target"].as_f64())
        else {
            continue;
        };
        if rate < target {
            let title = shape["title"].as_str().unwrap_or_default();
            writeln!(
                text,
                "| scenarios: {title} | per core-second | {rate:.0} | >= {target:.0} |"
            )?;
        }
    }
    Ok(text)
}

/// What a lock costs one client, and how fast it goes from hand to hand.
fn handover(handover: &Value) -> Result<String, Box<dyn Error>> {
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or(f64::NAN);
    let mut text = machine(handover);
    text.push_str(
        "| server | raw commands | mutex | time over raw commands | mutex with a watchdog | time over without |\n\
         |---|--:|--:|--:|--:|--:|\n",
    );
    for cost in list(handover, "cycles")? {
        writeln!(
            text,
            "| {} | {:.0}/s | {:.0}/s | {:.2}x | {:.0}/s | {:.2}x |",
            cost["server"].as_str().unwrap_or_default(),
            number(cost, "raw"),
            number(cost, "mutex"),
            number(cost, "over_raw"),
            number(cost, "with_a_watchdog"),
            number(cost, "over_without"),
        )?;
    }
    text.push_str("\n| waiters | lock | server | hand-overs | p50 | p99 | fairness |\n|--:|---|---|--:|--:|--:|--:|\n");
    for contest in list(handover, "contests")? {
        writeln!(
            text,
            "| {} | {} | {} | {:.0}/s | {:.0} us | {:.0} us | {:.2} |",
            contest["waiters"],
            contest["lock"].as_str().unwrap_or_default(),
            contest["server"].as_str().unwrap_or_default(),
            number(contest, "per_second"),
            number(contest, "p50_us"),
            number(contest, "p99_us"),
            number(contest, "fairness"),
        )?;
    }
    Ok(text)
}

/// The locks of other languages beside ours: a line for each lock and shape, with the median of each figure over the rounds.
fn foreign(foreign: &Value) -> Result<String, Box<dyn Error>> {
    let mut text = machine(foreign);
    text.push_str(
        "| clients x tasks | lock | cycles per second | commands | requests | Redis's time | acquire p50 | acquire p99 | fairness |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for row in list(foreign, "rows")? {
        let rounds = list(row, "rounds")?;
        let of = |name: &str| -> Result<f64, Box<dyn Error>> {
            let all: Vec<Value> = rounds.iter().map(|round| round[name].clone()).collect();
            Ok(middle(&Value::from(all)).ok_or_else(|| format!("no {name}"))?)
        };
        writeln!(
            text,
            "| {} x {} | {} | {:.0} | {:.1} | {:.1} | {:.0} us | {} | {} | {:.2} |",
            row["clients"],
            row["tasks"],
            row["lock"].as_str().unwrap_or_default(),
            of("cycles_per_second")?,
            of("commands_per_cycle")?,
            of("requests_per_cycle")?,
            of("server_us_per_cycle")?,
            duration(of("acquire_p50_us")? / 1e6),
            duration(of("acquire_p99_us")? / 1e6),
            of("fairness")?,
        )?;
    }
    Ok(text)
}

fn scenarios(scenarios: &Value) -> Result<String, Box<dyn Error>> {
    let mut text = machine(scenarios);
    text.push_str("| scenarios | per core-second | to reach |\n|---|--:|--:|\n");
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
        "first PING of a new server in the test's process, compared with starting redis-server",
        " sooner",
    ),
    (
        "lock cycle, redouble-lock: in process, against loopback",
        "cycles per second",
        "cycles of a lock per second in process, compared with Redis on loopback",
        "",
    ),
    (
        "SET NX PX, pipeline 16",
        "requests per CPU-second",
        "SET with pipeline 16, requests per CPU-second, compared with Redis",
        "",
    ),
    (
        "memory of 1 M locks (12 B key, 32 B token, TTL)",
        "resident bytes per lock",
        "memory of a million locks, compared with Redis",
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
        "| scenarios with three contending clients that one core plays and checks in a second | {rate:.0} |"
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
    let compare = read(&root, "compare.json")?;
    let played = read(&root, "scenarios.json")?;
    let page = root.join("docs/src/benchmarks.md");
    part(&page, "under-load", &under_load(&compare)?)?;
    part(&page, "missed", &missed(&compare, &played)?)?;
    part(&page, "others", &others(&compare)?)?;
    part(
        &page,
        "handover",
        &handover(&read(&root, "handover.json")?)?,
    )?;
    part(&page, "foreign", &foreign(&read(&root, "foreign.json")?)?)?;
    part(&page, "scenarios", &scenarios(&played)?)?;
    part(
        &root.join("README.md"),
        "figures",
        &headlines(&compare, &played)?,
    )
}
