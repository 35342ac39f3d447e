//! Message faults in front of a server, the double and a real one, seen by real clients and by raw
//! sockets. They are gone when the rules are removed.

mod backend;
mod faults;
mod transparent;

use backend::Backend;
use redouble::proxy::ProxyServer;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

type Error = Box<dyn std::error::Error>;
type Test = Result<(), Error>;

/// Limit for anything before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait before the absence of bytes counts.
const SILENCE: Duration = Duration::from_millis(60);

/// A client that writes and reads bytes.
struct Raw(TcpStream);

impl Raw {
    async fn connect(proxy: &ProxyServer) -> Result<Self, Error> {
        Ok(Self(TcpStream::connect(proxy.addr()).await?))
    }

    /// Sends lines as inline requests.
    async fn say(&mut self, lines: &str) -> Test {
        let lines = lines.replace('\n', "\r\n") + "\r\n";
        Ok(self.0.write_all(lines.as_bytes()).await?)
    }

    /// Reads exactly these bytes.
    #[track_caller]
    fn hear(&mut self, answer: &str) -> impl Future<Output = Test> {
        let mut found = vec![0; answer.len()];
        async move {
            let read = timeout(PATIENCE, self.0.read_exact(&mut found)).await;
            match read {
                Ok(Ok(_)) => {}
                other => return Err(format!("{other:?}, no {answer:?}").into()),
            }
            assert_eq!(String::from_utf8_lossy(&found), answer);
            Ok(())
        }
    }

    /// Checks that no bytes arrive for a while.
    async fn hears_nothing(&mut self) -> Test {
        match timeout(SILENCE, self.0.read(&mut [0; 64])).await {
            Err(_) => Ok(()),
            Ok(read) => Err(format!("{read:?} instead of silence").into()),
        }
    }

    /// Checks that the connection ends, in order or by a reset.
    async fn ends(&mut self, by_reset: bool) -> Test {
        let end = timeout(PATIENCE, self.0.read(&mut [0; 64])).await?;
        match end {
            Ok(0) if !by_reset => Ok(()),
            Err(error) if by_reset && error.kind() == std::io::ErrorKind::ConnectionReset => Ok(()),
            other => Err(format!("{other:?}, reset: {by_reset}").into()),
        }
    }
}
