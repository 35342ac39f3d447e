//! The examples in other languages, if their interpreters are installed.

use super::{Error, Test, program, stderr};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// True if the program can be started. Under `CI=true` a `required` program must be installed.
pub(super) fn is_there(interpreter: &str, required: bool) -> Result<bool, Error> {
    let mut version = Command::new(interpreter);
    let version = version.arg("--version").stdout(Stdio::null()).status();
    let found = version.is_ok_and(|status| status.success());
    if !found && required && std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        return Err(format!("no {interpreter} in the PATH").into());
    }
    if !found {
        writeln!(
            std::io::stderr(),
            "no {interpreter}: its example was not run"
        )?;
    }
    Ok(found)
}

fn example(interpreter: &str, file: &str, required: bool) -> Test {
    if !is_there(interpreter, required)? {
        return Ok(());
    }
    let file = format!(
        "{}/examples/other-languages/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    let args = [
        "run",
        "--control",
        "--clock",
        "manual",
        "--",
        interpreter,
        &file,
    ];
    let output = program(&args).output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", stderr(&output));
    let passed = said.lines().filter(|line| line.starts_with("ok ")).count();
    assert_eq!(passed, 3, "{said}");
    Ok(())
}

#[test]
fn python() -> Test {
    example("python3", "lock.py", true)
}

#[test]
fn node() -> Test {
    example("node", "lock.mjs", false)
}
