//! redis-py, the Python client, with default settings: through sentinels and in a cluster.

use super::control::Group;
use super::languages::is_there;
use super::{Error, Test};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

const VERSION: &str = "6.4.0";

/// An interpreter with redis-py, or the reason why there is none.
fn interpreter() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    MADE.get_or_init(make_interpreter).clone()
}

fn make_interpreter() -> Result<PathBuf, String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("redis-py-{VERSION}"));
    let bin = if cfg!(windows) { "Scripts" } else { "bin" };
    let python = folder.join(bin).join("python");
    let run = |program: &std::ffi::OsStr, args: &[&std::ffi::OsStr]| {
        let output = Command::new(program).args(args).output();
        let output = output.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(text)
    };
    let import = format!("import redis; assert redis.__version__ == '{VERSION}'");
    let has_it = || run(python.as_ref(), &["-c".as_ref(), import.as_ref()]);
    if has_it().is_err() {
        let venv = ["-m".as_ref(), "venv".as_ref(), folder.as_ref()];
        run("python3".as_ref(), &venv)?;
        let package = format!("redis=={VERSION}");
        let install = ["-m", "pip", "install", "--quiet", &package].map(AsRef::as_ref);
        run(python.as_ref(), &install)?;
        has_it()?;
    }
    Ok(python)
}

/// Runs a Python program against nodes of the double. Under `CI=true` redis-py must be installed.
fn check(topology: &str, nodes: &[&str], file: &str) -> Test {
    if !is_there("python3", true)? {
        return Ok(());
    }
    let python = match interpreter() {
        Ok(python) => python,
        Err(why) if std::env::var_os("CI").is_some_and(|ci| ci == "true") => {
            return Err(format!("no redis-py: {why}").into());
        }
        Err(why) => {
            writeln!(std::io::stderr(), "no redis-py, {file} was not run: {why}")?;
            return Ok(());
        }
    };
    let args = [
        "--topology",
        topology,
        "--control-port",
        "0",
        "--clock",
        "manual",
    ];
    let group = Group::start(&args, 7)?;
    let control = group.control.ok_or("a control port")?;
    let ports = nodes.iter().map(|name| group.port(name));
    let ports = std::iter::once(Ok(control)).chain(ports);
    let ports = ports.collect::<Result<Vec<u16>, Error>>()?;
    let file = format!(
        "{}/tests/program/redis_py/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut command = Command::new(python);
    let command = command.arg(&file).args(ports.iter().map(u16::to_string));
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(said.matches("ok ").count(), 3, "{said}");
    Ok(())
}

#[test]
fn through_sentinels() -> Test {
    let sentinels = ["sentinel-1", "sentinel-2", "sentinel-3"];
    check("sentinel:1+2+3", &sentinels, "sentinel.py")
}

#[test]
fn in_a_cluster() -> Test {
    check("cluster:3+3", &["master-2"], "cluster.py")
}
