//! A proxy without rules changes nothing, and pairs requests with replies correctly.

use super::{Backend, PATIENCE, Raw, Test};
use redis::AsyncTypedCommands;
use redouble::fault::AnswerError;
use redouble::proxy::ProxyServer;
use std::fmt::Write as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// All replies of a server to these lines, up to QUIT.
async fn transcript(addr: &str, lines: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(addr).await?;
    let lines = format!("{lines}\nQUIT\n").replace('\n', "\r\n");
    stream.write_all(lines.as_bytes()).await?;
    let mut replies = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut replies)).await??;
    Ok(String::from_utf8_lossy(&replies).into_owned())
}

const LINES: &str = "FLUSHALL\nSET k v\nGET k\nGET none\nLPUSH l a b c\nLRANGE l 0 -1\nNONSENSE x\nSET k\n\
    EVAL 'return {1,{2,{3}},redis.error_reply(\"x\")}' 0\nMULTI\nINCR n\nGET k\nEXEC\nMULTI\nNONSENSE\nEXEC\n\
    SUBSCRIBE a b\nPING\nUNSUBSCRIBE\nPSUBSCRIBE p*\nPUNSUBSCRIBE p*\nUNSUBSCRIBE\n\
    CLIENT REPLY SKIP\nGET k\nECHO seen\nCLIENT REPLY OFF\nGET k\nINCR n\nCLIENT REPLY ON\nINCR n\n\
    LPUSH messages message\nLRANGE messages 0 -1\nHELLO 3\nHSET h a 1\nHGETALL h\nGET none\n\
    SUBSCRIBE a\nPUBLISH a own\nUNSUBSCRIBE a\nRESET\nBLPOP l 0\nSET x y EX 0\nECHO 'a b'";

/// HELLO returns the connection id, which differs.
fn normal(text: &str) -> String {
    let Some((head, tail)) = text.split_once("$2\r\nid\r\n:") else {
        return text.to_owned();
    };
    let rest = tail.split_once("\r\n").map_or("", |(_, rest)| rest);
    format!("{head}{rest}")
}

#[tokio::test]
async fn nothing_is_changed() -> Test {
    for backend in Backend::all().await? {
        let proxy = ProxyServer::start(backend.addr()).await?;
        let direct = transcript(&backend.addr(), LINES).await?;
        let relayed = transcript(&proxy.addr().to_string(), LINES).await?;
        assert!(
            direct.contains("$5\r\na b\r\n") || direct.contains("a b"),
            "{direct}"
        );
        assert_eq!(normal(&relayed), normal(&direct), "{}", backend.name());
        // Nor does a rule that matches no request, although every frame is paired then.
        let rule = proxy.inject(AnswerError::oom().command("NOTHING"));
        let relayed = transcript(&proxy.addr().to_string(), LINES).await?;
        assert_eq!(normal(&relayed), normal(&direct), "{}", backend.name());
        rule.assert_fired(0);
        let last = proxy.inject(AnswerError::oom().command("ECHO").after_execution().nth(2));
        let relayed = transcript(&proxy.addr().to_string(), LINES).await?;
        let (head, tail) = relayed
            .rsplit_once("-OOM")
            .ok_or("the second ECHO is answered")?;
        assert!(tail.ends_with("+OK\r\n") && normal(&direct).starts_with(&normal(head)));
        last.assert_fired(1);
    }
    Ok(())
}

#[tokio::test]
async fn lines_of_monitor_and_messages_pass_among_replies() -> Test {
    for backend in Backend::all().await? {
        let proxy = ProxyServer::start(backend.addr()).await?;
        let mut monitor = Raw::connect(&proxy).await?;
        monitor.say("MONITOR").await?;
        monitor.hear("+OK\r\n").await?;
        let rule = proxy.inject(
            AnswerError::new("ERR other")
                .command("ECHO")
                .after_execution(),
        );
        backend.direct().await?.set("seen", "v").await?;
        let mut line = String::new();
        while !line.contains("\"seen\"") || !line.ends_with("\r\n") {
            line.push(char::from(monitor.0.read_u8().await?));
        }
        monitor.say("ECHO x").await?;
        let mut rest = String::new();
        while !rest.contains("-ERR other\r\n") {
            rest.push(char::from(monitor.0.read_u8().await?));
        }
        rule.assert_fired(1);
    }
    Ok(())
}

/// A client's own invalidations come after the reply of EXEC.
#[tokio::test]
async fn an_invalidation_behind_exec_shifts_nothing() -> Test {
    for backend in Backend::all().await? {
        let proxy = ProxyServer::start(backend.addr()).await?;
        let _rule = proxy.inject(
            AnswerError::new("ERR mine")
                .command("ECHO")
                .after_execution(),
        );
        let lines =
            "HELLO 3\nCLIENT TRACKING ON\nGET k\nMULTI\nSET k w\nSET k x\nEXEC\nECHO a\nGET k";
        let relayed = transcript(&proxy.addr().to_string(), lines).await?;
        let (before, after) = relayed.split_once("-ERR mine\r\n").ok_or("an answer")?;
        assert!(before.contains("invalidate"), "{relayed}");
        assert!(before.contains("*2\r\n"), "{relayed}");
        assert!(after.ends_with("$1\r\nx\r\n+OK\r\n"), "{relayed}");
    }
    Ok(())
}

#[tokio::test]
async fn much_passes_both_ways() -> Test {
    for backend in Backend::all().await? {
        let proxy = ProxyServer::start(backend.addr()).await?;
        let client = redis::Client::open(proxy.url())?;
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let mut redis = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let big = "x".repeat(8 * 1024 * 1024);
        redis.set("big", &big).await?;
        assert_eq!(redis.get("big").await?, Some(big));
        // The client reads nothing until it has sent everything, which is more than may be on the
        // way.
        let mut stream = TcpStream::connect(proxy.addr()).await?;
        let (mut reader, mut writer) = stream.split();
        let count = 100_000;
        let write = async {
            let mut lines = String::new();
            for n in 0..count {
                write!(lines, "ECHO {n}\r\n")?;
            }
            writer.write_all(lines.as_bytes()).await?;
            Test::Ok(())
        };
        let read = async {
            let mut expected = String::new();
            for n in 0..count {
                let text = n.to_string();
                write!(expected, "${}\r\n{text}\r\n", text.len())?;
            }
            let mut found = vec![0; expected.len()];
            reader.read_exact(&mut found).await?;
            assert!(found == expected.as_bytes(), "replies are in order");
            Test::Ok(())
        };
        let (wrote, found) =
            tokio::time::timeout(PATIENCE, async { tokio::join!(write, read) }).await?;
        (wrote?, found?).0
    }
    Ok(())
}

#[tokio::test]
async fn clients_of_an_unreachable_server_are_disconnected() -> Test {
    let unused = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let proxy = ProxyServer::start(unused.to_string()).await?;
    Raw::connect(&proxy).await?.ends(true).await
}

/// Rules over the wire, for clients of other languages.
#[tokio::test]
async fn rules_are_given_at_the_control_port() -> Test {
    let backend = Backend::all().await?.remove(0);
    let proxy = ProxyServer::builder(backend.addr())
        .control_port(0)
        .start()
        .await?;
    let url = proxy.control_url().ok_or("a control port")?;
    let mut control = redis::Client::open(url)?
        .get_multiplexed_async_connection()
        .await?;
    let words = "ADD answer_error OOM DIRECTION request COMMAND SET";
    let mut add = redis::cmd("REDOUBLE.FAULT");
    for word in words.split(' ') {
        add.arg(word);
    }
    let id: u64 = add.query_async(&mut control).await?;
    let mut raw = Raw::connect(&proxy).await?;
    raw.say("SET k v\nREDOUBLE.FAULT LIST").await?;
    raw.hear(
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n-ERR REDOUBLE.* is not enabled",
    )
    .await?;
    let mut fired = redis::cmd("REDOUBLE.FAULT");
    let fired: u64 = fired.arg("FIRED").arg(id).query_async(&mut control).await?;
    assert_eq!(fired, 1);
    redis::cmd("REDOUBLE.RESET")
        .exec_async(&mut control)
        .await?;
    let mut raw = Raw::connect(&proxy).await?;
    raw.say("SET k v").await?;
    raw.hear("+OK\r\n").await?;
    let clock = redis::cmd("REDOUBLE.CLOCK")
        .arg("NOW")
        .exec_async(&mut control)
        .await;
    let error = clock.unwrap_err().to_string();
    assert!(
        error.contains("a proxy does not support REDOUBLE.CLOCK"),
        "{error}"
    );
    Ok(())
}
