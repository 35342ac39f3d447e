//! The `redouble` program, as scripts and tests of other languages use it.

mod control;
mod documented;
mod languages;
mod proxy;
mod redis_cli;
mod redis_py;
#[cfg(unix)]
mod run;
mod serve;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

type Error = Box<dyn std::error::Error>;
type Test = Result<(), Error>;

/// Limit for anything before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running program; killed if the test fails.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redouble"));
    command.args(args);
    piped(command)
}

fn piped(mut command: Command) -> Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts a program; returns the first line that it prints.
fn start(mut command: Command) -> Result<(Program, String), Error> {
    let mut child = Program(command.spawn()?);
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().ok_or("no stdout")?).read_line(&mut line)?;
    Ok((child, line.trim_end().to_owned()))
}

/// Starts `redouble serve` and waits until it is ready; returns the port.
fn serve(args: &[&str]) -> Result<(Program, u16), Error> {
    let (child, line) = start(program(&[&["serve"], args].concat()))?;
    let port = port(&line)?;
    Ok((child, port))
}

/// The port in the line that a server prints.
fn port(line: &str) -> Result<u16, Error> {
    let rest = line.strip_prefix("ready redis://127.0.0.1:");
    let port = rest.and_then(|rest| rest.split(' ').next());
    Ok(port.ok_or_else(|| line.to_owned())?.parse()?)
}

fn ask(port: u16, request: &str, answer: &str) -> Test {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut found = vec![0; answer.len()];
    stream.read_exact(&mut found)?;
    assert_eq!(String::from_utf8_lossy(&found), answer);
    Ok(())
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[cfg(unix)]
fn signal(name: &str, process: u32) -> Test {
    let status = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status()?;
    assert!(status.success());
    Ok(())
}
