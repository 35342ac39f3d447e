//! The pages hang together: each one is in the summary and its code is tested, each link leads somewhere,
//! and generated pages are up to date. `UPDATE=1` writes the generated ones anew.

use redouble::{Clock, Server};
use redouble_conformance::{checker::Property, history::Excuse};
use redouble_differential::{KNOWN, LENIENT, NOT_IN_INFO, NOT_SENT};
use std::{
    collections::BTreeMap,
    env,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

mod figures;

type Test = Result<(), Box<dyn std::error::Error>>;

/// The front page may not grow into a manual.
const README_BYTES_MAX: usize = 10 * 1024;
/// Pages whose text comes from elsewhere, or without code.
const WITHOUT_CODE: [&str; 7] = [
    "SUMMARY.md",
    "architecture.md",
    "commands.md",
    "differences.md",
    "parameters.md",
    "suite/adapters.md",
    "versions.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            pages(&path, found)?;
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(())
}

/// The targets of `[text](target)` outside of code.
fn links(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2).collect::<Vec<_>>().join("\n");
    let parts = prose.split("](").skip(1);
    parts
        .filter_map(|part| Some(part.split_once(')')?.0.to_owned()))
        .collect()
}

#[test]
fn every_page_is_in_the_summary_and_its_code_is_tested() -> Test {
    let folder = root().join("docs/src");
    let summary = fs::read_to_string(folder.join("SUMMARY.md"))?;
    let tested = fs::read_to_string(root().join("docs/lib.rs"))?;
    let mut found = Vec::new();
    pages(&folder, &mut found)?;
    assert!(found.len() > 15, "{} pages", found.len());
    for page in found {
        let name = page.strip_prefix(&folder)?.to_string_lossy().into_owned();
        assert!(
            name == "SUMMARY.md" || summary.contains(&format!("({name})")),
            "{name} is not in SUMMARY.md"
        );
        assert!(
            WITHOUT_CODE.contains(&name.as_str()) || tested.contains(&format!("src/{name}")),
            "the code of {name} is not tested: add it to lib.rs"
        );
    }
    Ok(())
}

#[test]
fn every_link_leads_somewhere() -> Test {
    let mut found = vec![
        root().join("README.md"),
        root().join("ARCHITECTURE.md"),
        root().join("CHANGELOG.md"),
    ];
    pages(&root().join("docs/src"), &mut found)?;
    let mut checked = 0;
    for page in found {
        let folder = page.parent().ok_or("no folder")?;
        for link in links(&fs::read_to_string(&page)?) {
            if link.starts_with("http") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() {
                page.clone()
            } else {
                folder.join(file)
            };
            assert!(target.exists(), "{}: no {link}", page.display());
            checked += 1;
            if anchor.is_empty() {
                continue;
            }
            let text = fs::read_to_string(&target)?.to_lowercase();
            let headings = text.lines().filter(|line| line.starts_with('#'));
            let mut anchors = headings.map(|line| {
                let title = line.trim_start_matches('#').trim();
                let kept = title
                    .chars()
                    .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
                kept.collect::<String>().replace(' ', "-")
            });
            assert!(
                anchors.any(|known| known == anchor),
                "{}: no heading for {link}",
                page.display()
            );
        }
    }
    assert!(checked > 30, "{checked} links");
    Ok(())
}

#[test]
fn the_front_page_is_short() -> Test {
    let bytes = fs::read(root().join("README.md"))?.len();
    assert!(bytes <= README_BYTES_MAX, "README.md has {bytes} bytes");
    Ok(())
}

/// With idna_adapter 1.0.0 the crate `url` builds without ICU, which is a tenth of a cold build. `cargo update` undoes it.
#[test]
fn the_lock_file_keeps_icu_out() -> Test {
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    assert!(
        !lock.contains("name = \"icu_provider\""),
        "cargo update -p idna_adapter --precise 1.0.0"
    );
    Ok(())
}

/// Compares a generated page with its file, or writes it.
fn generated(name: &str, text: &str) -> Test {
    let path = root().join("docs/src").join(name);
    if env::var_os("UPDATE").is_some() {
        fs::write(path, text)?;
    } else {
        let written = fs::read_to_string(path)?;
        assert!(
            written == text,
            "docs/src/{name} is out of date: UPDATE=1 cargo test -p redouble-book"
        );
    }
    Ok(())
}

/// How replies to a command are compared with those of a real server.
fn compared(name: &str) -> String {
    if let Some(row) = LENIENT.iter().find(|row| row.name == name) {
        format!("{} ({})", row.how, row.reason)
    } else if let Some(row) = NOT_SENT.iter().find(|row| row.name == name) {
        format!("transcripts only: {}", row.reason)
    } else {
        "byte for byte".to_owned()
    }
}

/// The version in which each command came, as COMMAND DOCS tells.
fn since() -> Result<BTreeMap<String, String>, Box<dyn std::error::Error>> {
    type Docs = BTreeMap<String, BTreeMap<String, redis::Value>>;
    let server = Server::builder().clock(Clock::Manual).start_blocking()?;
    let mut redis = redis::Client::open(server.url())?.get_connection()?;
    let docs: Docs = redis::cmd("COMMAND").arg("DOCS").query(&mut redis)?;
    let mut since = BTreeMap::new();
    for (name, fields) in docs {
        if let Some(redis::Value::Array(_) | redis::Value::Map(_)) = fields.get("subcommands") {
            let value = fields["subcommands"].clone();
            let subcommands: Docs = redis::from_redis_value(value)?;
            for (name, fields) in subcommands {
                let version = redis::from_redis_value(fields["since"].clone())?;
                since.insert(name, version);
            }
        }
        let version = redis::from_redis_value(fields["since"].clone())?;
        since.insert(name, version);
    }
    Ok(since)
}

#[test]
fn the_table_of_commands_is_up_to_date() -> Test {
    let names = redouble::command_names();
    assert!(names.len() > 200, "{} commands", names.len());
    let since = since()?;
    let mut text = String::from(
        "# Commands\n\n\
         The double announces and implements Redis 7.0.15. No command of Redis 7.0 is missing. [Versions](versions.md) has the \
         commands of\n\
         later versions.\n\n\
         *Compared* says how the tests compare a reply with that of a real server. They run generated sequences of commands on \
         both, and\n\
         play transcripts of each command on both. A *transcript* is a recorded list of commands with the replies of a real \
         Redis. Names in\n\
         parentheses, such as `help`, are rows of [Known differences](differences.md).\n\n\
         | command | since | compared |\n|---|---|---|\n",
    );
    for name in names {
        let row = name.to_ascii_lowercase().replace(' ', "|");
        let version = since.get(&row).map_or("", String::as_str);
        let shown = name.to_ascii_uppercase();
        writeln!(text, "| `{shown}` | {version} | {} |", compared(&row))?;
    }
    let missing = redouble::missing_command_names();
    assert!(missing.is_empty(), "{missing:?}");
    generated("commands.md", &text)
}

#[test]
fn the_list_of_parameters_is_up_to_date() -> Test {
    let names = redouble::parameters_without_effect();
    assert!(names.len() > 50, "{} parameters", names.len());
    let mut text = String::from(
        "# Parameters\n\n\
         CONFIG GET and CONFIG SET know every parameter of Redis 7.0.15, and check values as Redis does. These have no effect, \
         because\n\
         they govern what a double does not have:\n\n",
    );
    for name in names {
        writeln!(text, "* `{name}`")?;
    }
    generated("parameters.md", &text)
}

#[test]
fn the_known_differences_are_up_to_date() -> Test {
    assert!(KNOWN.len() > 10, "{} differences", KNOWN.len());
    let mut text = String::from(
        "# Known differences\n\n\
         The double differs from Redis 7.0.15 in these points on purpose. Transcripts, which are recorded lists \
         of commands with\n\
         the replies of a real Redis, and [the table of commands](commands.md) refer to a difference by its name.\n\n\
         | name | difference and reason |\n|---|---|\n",
    );
    for known in KNOWN {
        writeln!(text, "| {} | {} |", known.name, known.reason)?;
    }
    text.push_str(
        "\n## Fields of INFO\n\n\
         The double omits these fields, because they describe the memory of a process, its allocator and its machine.\n\
         MEMORY STATS lacks its fields about the allocator and about fragmentation for the same reason:\n\n",
    );
    for name in NOT_IN_INFO {
        writeln!(text, "* `{name}`")?;
    }
    generated("differences.md", &text)
}

#[test]
fn the_table_of_properties_is_up_to_date() -> Test {
    let mut text = String::from("\n| id | property | statement |\n|---|---|---|\n");
    for property in Property::ALL {
        let (id, title) = (property.id(), property.title());
        writeln!(text, "| {id} | {title} | {} |", property.statement())?;
    }
    text.push('\n');
    figures::part(
        &root().join("docs/src/suite/properties.md"),
        "properties",
        &text,
    )
}

#[test]
fn the_table_of_excuses_is_up_to_date() -> Test {
    let mut text = String::from(
        "\n| property | what excuses a lock | what convicts it all the same |\n|---|---|---|\n",
    );
    for excuse in Excuse::ALL {
        let (property, explains) = (excuse.property().id(), excuse.explains());
        writeln!(text, "| {property} | {explains} | {} |", excuse.near_miss())?;
    }
    text.push('\n');
    figures::part(
        &root().join("docs/src/suite/properties.md"),
        "excuses",
        &text,
    )
}
