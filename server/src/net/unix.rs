//! Unix sockets: the file, its permissions and its end; how connections are accepted.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A Unix socket that listens. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    listener: std::os::unix::net::UnixListener,
    file: SocketFile,
}

/// The file of a Unix socket. Dropping this removes it.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode, because another server can have taken the path since.
    identity: (u64, u64),
}

impl UnixSocket {
    /// Listens at `path`, which is absolute, with `mode` as the file's permissions unless it is 0.
    /// As in Redis, the socket replaces a file or a link at this path, but not a folder (`anet.c: anetUnixServer`). A
    /// socket on which another server listens stays: Redis takes its path away from it.
    pub(super) fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        if let Ok(found) = fs::symlink_metadata(path).map(|found| found.file_type())
            && !found.is_dir()
            && !(found.is_socket() && is_served(path))
        {
            fs::remove_file(path)?;
        }
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
        socket.bind(&socket2::SockAddr::unix(path)?)?;
        let found = fs::symlink_metadata(path)?;
        let file = SocketFile {
            path: path.to_owned(),
            identity: (found.dev(), found.ino()),
        };
        if mode != 0 {
            // Before it listens, so that no client connects under other permissions.
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        socket.listen(super::tcp::BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            listener: socket.into(),
            file,
        })
    }
}

/// True unless the server behind this socket has ended.
fn is_served(path: &Path) -> bool {
    let connected = std::os::unix::net::UnixStream::connect(path);
    !connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

impl UnixSocket {
    /// The socket for the event loop, its file, and the address that Redis shows for both ends: clients
    /// have none of their own.
    pub(super) fn into_parts(self) -> (std::os::unix::net::UnixListener, SocketFile, String) {
        let addr = format!("{}:0", self.file.path.display());
        (self.listener, self.file, addr)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket file");
        }
    }
}

/// The URL of the socket at `path`, which is absolute, as Redis clients of most languages read it.
pub(crate) fn url(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt;
    let mut url = String::from("unix://");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            let _infallible = write!(url, "%{byte:02X}");
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_url() {
        let url = |path: &str| url(Path::new(path));
        assert_eq!(url("/run/redis.sock"), "unix:///run/redis.sock");
        assert_eq!(url("/a b/ä?#%"), "unix:///a%20b/%C3%A4%3F%23%25");
    }

    #[test]
    fn it_replaces_files_and_no_server() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("socket");
        let refused = |path: &Path| {
            UnixSocket::bind(path, 0)
                .map_err(|error| error.kind())
                .err()
        };
        fs::create_dir(&path)?;
        assert_eq!(refused(&path), Some(io::ErrorKind::AddrInUse));
        fs::remove_dir(&path)?;
        fs::write(&path, "a file")?;
        assert_eq!(refused(&path), None);

        let target = folder.path().join("target");
        fs::write(&target, "another file")?;
        std::os::unix::fs::symlink(&target, &path)?;
        assert_eq!(refused(&path), None);
        assert_eq!(fs::read(&target)?, b"another file");

        drop(std::os::unix::net::UnixListener::bind(&path)?); // leaves its file
        let first = UnixSocket::bind(&path, 0o600)?;
        assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
        assert_eq!(refused(&path), Some(io::ErrorKind::AddrInUse));

        // A server that has taken the path meanwhile keeps it.
        fs::remove_file(&path)?;
        let second = UnixSocket::bind(&path, 0)?;
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
        Ok(())
    }
}
