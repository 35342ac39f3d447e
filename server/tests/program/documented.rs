//! The shell commands of the README and the book: each one is what the program takes.

use super::{Error, Test, program, serve, stderr};
use std::fs;
use std::path::{Path, PathBuf};

/// README.md and the pages of the book.
fn pages() -> Result<Vec<PathBuf>, Error> {
    let server = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = server.parent().ok_or("no parent")?;
    let mut found = vec![root.join("README.md"), server.join("README.md")];
    let mut folders = vec![root.join("docs/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// The words of each documented command that begins with `name`: from `sh` blocks, and from code within a sentence.
fn commands(name: &str) -> Result<Vec<Vec<String>>, Error> {
    let mut found = Vec::new();
    for page in pages()? {
        let text = fs::read_to_string(&page)?;
        for (index, part) in text.split("```").enumerate() {
            let lines: Vec<&str> = match part.strip_prefix("sh\n") {
                Some(block) if index % 2 == 1 => block.lines().collect(),
                _ if index % 2 == 1 => continue,
                _ => part.split('`').skip(1).step_by(2).collect(),
            };
            for line in lines {
                let line = line.split(" #").next().unwrap_or(line);
                let mut words = line.split_whitespace().map(str::to_owned);
                if words.next().as_deref() == Some(name) {
                    found.push(words.collect());
                }
            }
        }
    }
    Ok(found)
}

#[test]
fn documented_options_exist() -> Test {
    let all = commands("redouble")?;
    assert!(all.len() > 8, "{all:?}");
    for words in all {
        // With `--help` at its end a command is checked and not run.
        let options = words.iter().take_while(|word| *word != "--");
        let options: Vec<&str> = options.map(String::as_str).chain(["--help"]).collect();
        let output = program(&options).output()?;
        assert!(
            output.status.success(),
            "redouble {words:?}: {}",
            stderr(&output)
        );
    }
    let output = program(&["serve", "--no-such-option", "--help"]).output()?;
    assert!(
        !output.status.success(),
        "an unknown option passes, so this test shows nothing"
    );
    Ok(())
}

#[test]
fn documented_control_requests_are_answered() -> Test {
    let (_server, port) = serve(&["--port", "0", "--control", "--clock", "manual"])?;
    let mut redis = redis::Client::open(("127.0.0.1", port))?.get_connection()?;
    let mut sent = 0;
    let mut all = commands("redis-cli")?;
    for name in ["REDOUBLE.CLOCK", "REDOUBLE.FAULT"] {
        let found = commands(name)?
            .into_iter()
            .filter(|words| !words.is_empty());
        all.extend(found.map(|words| [vec![name.to_owned()], words].concat()));
    }
    for words in all {
        let Some(at) = words.iter().position(|word| word.starts_with("REDOUBLE.")) else {
            continue;
        };
        let mut request = redis::cmd(&words[at]);
        for word in &words[at + 1..] {
            request.arg(if word == "ms" {
                "1"
            } else {
                word.trim_matches('"')
            });
        }
        let answer: Result<redis::Value, _> = request.query(&mut redis);
        assert!(answer.is_ok(), "{words:?}: {answer:?}");
        sent += 1;
    }
    assert!(sent > 6, "{sent} requests");
    Ok(())
}
