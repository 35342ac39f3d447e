//! SHUTDOWN and FLUSHALL of a server with a folder.

use redouble::Server;
use std::fs;
use std::path::Path;

type Test = Result<(), Box<dyn std::error::Error>>;

fn server(folder: &Path) -> Result<Server, Box<dyn std::error::Error>> {
    Ok(Server::builder().dir(folder).start_blocking()?)
}

fn run(server: &Server, request: &str) -> redis::RedisResult<redis::Value> {
    let mut client = redis::Client::open(server.url())?.get_connection()?;
    let mut words = request.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        command.arg(word);
    }
    command.query(&mut client)
}

/// Sets the points of saving.
fn save_at(server: &Server, points: &str) -> redis::RedisResult<()> {
    let mut client = redis::Client::open(server.url())?.get_connection()?;
    let mut command = redis::cmd("CONFIG");
    command.arg("SET").arg("save").arg(points).exec(&mut client)
}

#[test]
fn a_shutdown_saves_if_it_is_told_to_or_if_there_are_points_of_saving() -> Test {
    for (points, request, is_saved) in [
        ("", "SHUTDOWN", false),
        ("", "SHUTDOWN SAVE", true),
        ("900 1", "SHUTDOWN", true),
        ("900 1", "SHUTDOWN NOSAVE", false),
    ] {
        let folder = tempfile::tempdir()?;
        let first = server(folder.path())?;
        save_at(&first, points)?;
        first.set("k", "v");
        let ended = run(&first, request);
        assert!(ended.is_err_and(|error| error.is_io_error() || error.is_connection_dropped()));
        let second = server(folder.path())?;
        match is_saved {
            true => second.assert_get("k", "v"),
            false => second.assert_missing("k"),
        }
    }
    Ok(())
}

#[test]
fn a_server_that_cannot_save_stays_unless_it_is_forced() -> Test {
    let folder = tempfile::tempdir()?;
    let server = server(folder.path())?;
    fs::create_dir(folder.path().join("dump.rdb"))?;
    let error = run(&server, "SHUTDOWN SAVE").unwrap_err();
    assert_eq!(
        error.to_string().rsplit(": ").next(),
        Some("Errors trying to SHUTDOWN. Check logs."),
        "{error}"
    );
    server.set("k", "v");
    server.assert_get("k", "v");
    assert!(run(&server, "SHUTDOWN SAVE FORCE").is_err());
    assert!(redis::Client::open(server.url())?.get_connection().is_err());
    Ok(())
}

#[test]
fn without_a_folder_a_shutdown_cannot_save() -> Test {
    let server = Server::start_blocking()?;
    let error = run(&server, "SHUTDOWN SAVE").unwrap_err();
    assert!(error.to_string().contains("--dir"), "{error}");
    Ok(())
}

/// `db.c: flushAllDataAndResetRDB`
#[test]
fn an_emptied_server_saves_if_there_are_points_of_saving() -> Test {
    let folder = tempfile::tempdir()?;
    let server = server(folder.path())?;
    server.set("k", "v");
    run(&server, "SAVE")?;
    let changes = || -> Result<String, Box<dyn std::error::Error>> {
        let mut client = redis::Client::open(server.url())?.get_connection()?;
        let info: String = redis::cmd("INFO").arg("persistence").query(&mut client)?;
        let name = "rdb_changes_since_last_save:";
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.unwrap_or_default().to_owned())
    };
    run(&server, "FLUSHALL")?;
    assert_ne!(changes()?, "0");
    save_at(&server, "900 1")?;
    server.set("k", "v");
    run(&server, "FLUSHALL")?;
    assert_eq!(changes()?, "0");
    Ok(())
}
