//! `redouble proxy`.

use super::{Error, Program, Test, ask, program, serve, stderr};
use std::io::{BufRead, BufReader};

/// The port of the URL in a line such as `control redis://127.0.0.1:40113`.
fn port(line: &str, word: &str) -> Result<u16, Error> {
    let port = line
        .strip_prefix(word)
        .and_then(|rest| rest.strip_prefix(" redis://127.0.0.1:"));
    Ok(port.ok_or_else(|| line.to_owned())?.parse()?)
}

#[cfg(unix)]
#[test]
fn it_stands_before_a_server_and_takes_rules() -> Test {
    let (_server, upstream) = serve(&[])?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("port");
    let path = file.to_str().ok_or("a path")?;
    let upstream_url = format!("redis://127.0.0.1:{upstream}");
    let args = ["proxy", "--upstream", &upstream_url, "--port-file", path];
    let mut child = Program(program(&args).spawn()?);
    let stdout = child.0.stdout.take().ok_or("no stdout")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut line = || lines.next().ok_or("a line")?.map_err(Error::from);
    let (proxy, control) = (port(&line()?, "ready")?, port(&line()?, "control")?);
    assert_eq!(std::fs::read_to_string(&file)?, format!("{proxy}\n"));
    ask(
        control,
        "REDOUBLE.FAULT ADD answer_error READONLY DIRECTION request COMMAND SET NTH 1\r\n",
        ":1\r\n",
    )?;
    ask(proxy, "SET k v\r\nSET k w\r\nGET k\r\n", &{
        let readonly = "-READONLY You can't write against a read only replica.\r\n";
        format!("{readonly}+OK\r\n$1\r\nw\r\n")
    })?;
    ask(
        control,
        "REDOUBLE.FAULT FIRED 1\r\nREDOUBLE.RESET\r\n",
        ":1\r\n+OK\r\n",
    )?;
    ask(upstream, "GET k\r\n", "$1\r\nw\r\n")?;
    super::signal("TERM", child.0.id())?;
    assert_eq!(child.0.wait()?.code(), Some(0));
    assert_eq!(std::fs::read_dir(folder.path())?.count(), 0);
    Ok(())
}

#[test]
fn an_invalid_upstream_is_explained() -> Test {
    for (args, code, words) in [
        (&[][..], 2, "--upstream"),
        (
            &["--upstream", "localhost:6379"],
            2,
            "expected redis://HOST:PORT",
        ),
        (
            &["--upstream", "redis://:p@h:1"],
            2,
            "clients send AUTH and SELECT themselves",
        ),
        (
            &[
                "--upstream",
                "redis://h:1",
                "--bind",
                "192.0.2.1",
                "--port",
                "1",
            ],
            1,
            "cannot listen on 192.0.2.1:1",
        ),
    ] {
        let output = program(&[&["proxy"], args].concat()).output()?;
        assert!(
            stderr(&output).contains(words),
            "{args:?}: {}",
            stderr(&output)
        );
        assert_eq!(output.status.code(), Some(code), "{args:?}");
    }
    Ok(())
}
