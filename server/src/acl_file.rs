//! The users of a server: settings of the builder, and the file of ACL LOAD and ACL SAVE. The rules themselves are
//! known to the engine alone.

use crate::engine::AclStore;
use crate::server::ServerBuilder;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

/// A file of users on the disk of this machine.
#[derive(Debug)]
struct AclFile {
    path: PathBuf,
    name: String,
}

impl AclStore for AclFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        std::fs::read(&self.path)
    }

    fn write(&self, text: &[u8]) -> io::Result<()> {
        // A program that reads the file must never find half of it.
        let mut part = self.path.clone().into_os_string();
        part.push(".part");
        let written = std::fs::File::create(&part)
            .and_then(|mut file| file.write_all(text))
            .and_then(|()| std::fs::rename(&part, &self.path));
        if written.is_err() {
            let _gone = std::fs::remove_file(&part);
        }
        written
    }
}

impl ServerBuilder {
    /// Adds a user, or sets the rights of the user `default`: its name and the rules of `ACL SETUSER`, as after
    /// `user` in `redis.conf`. A sentinel has no users but `default`.
    ///
    /// ```
    /// use redis::TypedCommands;
    /// use redouble::Server;
    ///
    /// let server = Server::builder()
    ///     .user("worker on >secret ~job:* +@read")
    ///     .start_blocking()?;
    /// let url = format!("redis://worker:secret@{}", server.addr());
    /// let mut worker = redis::Client::open(url)?.get_connection()?;
    /// assert_eq!(worker.get("job:1")?, None);
    /// assert_eq!(worker.set("job:1", "x").unwrap_err().code(), Some("NOPERM"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn user(mut self, definition: impl Into<Vec<u8>>) -> Self {
        self.config.users.push(definition.into());
        self
    }

    /// The file that `ACL LOAD` reads and `ACL SAVE` writes (`aclfile`). The server starts with its users, and does
    /// not start if it cannot read them. The nodes of a deployment share the file.
    pub fn acl_file(mut self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let name = path.display().to_string();
        self.config.acl_store = Some(Arc::new(AclFile { path, name }));
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::{Server, StartError};

    fn reply(server: &Server, line: &str) -> String {
        match server.command(line.split(' ')) {
            Ok(reply) => reply.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn users_come_from_a_file_and_go_to_it() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("users.acl");
        std::fs::write(&path, "user alice on nopass ~a* +get\n\nuser bob off\n")?;
        let server = Server::builder().acl_file(&path).start_blocking()?;
        assert_eq!(reply(&server, "ACL USERS"), "[alice bob default]");
        assert_eq!(
            reply(&server, "CONFIG GET aclfile"),
            format!("[aclfile {}]", path.display())
        );
        assert_eq!(reply(&server, "ACL DELUSER bob"), "1");
        assert_eq!(reply(&server, "ACL SAVE"), "OK");
        let saved = "user alice on nopass ~a* resetchannels -@all +get\nuser default on nopass ~* &* +@all\n";
        assert_eq!(std::fs::read_to_string(&path)?, saved);
        std::fs::write(&path, "user carol on\nuser carol off\nnonsense\n")?;
        let errors = reply(&server, "ACL LOAD");
        assert!(
            errors.contains("WARNING: Duplicate user 'carol' found on line 2. "),
            "{errors}"
        );
        assert!(
            errors.contains("users.acl:3 should start with user keyword"),
            "{errors}"
        );
        assert_eq!(reply(&server, "ACL USERS"), "[alice default]");
        std::fs::write(&path, "user carol on\n")?;
        assert_eq!(reply(&server, "ACL LOAD"), "OK");
        assert_eq!(reply(&server, "ACL USERS"), "[carol default]");
        std::fs::remove_file(&path)?;
        let missing = reply(&server, "ACL LOAD");
        assert!(
            missing.ends_with("': No such file or directory"),
            "{missing}"
        );
        drop(folder);
        let unwritable = reply(&server, "ACL SAVE");
        assert!(
            unwritable.contains("There was an error trying to save the ACLs"),
            "{unwritable}"
        );
        Ok(())
    }

    #[test]
    fn a_server_does_not_start_with_wrong_users() {
        for (builder, expected) in [
            (Server::builder().user("alice +nosuch"), "Unknown command"),
            (Server::builder().user("alice (+get"), "is not closed"),
            (
                Server::builder().user("alice").user("alice"),
                "'alice': Duplicate user found",
            ),
            (
                Server::builder().user("default on").user("default off"),
                "'default': Duplicate user found",
            ),
            (
                Server::builder().acl_file("/nonexistent/users.acl"),
                "No such file or directory",
            ),
            (
                Server::builder()
                    .user("alice")
                    .acl_file("/nonexistent/users.acl"),
                "not from both",
            ),
        ] {
            match builder.start_blocking() {
                Err(StartError::Users { reason, .. }) => {
                    assert!(reason.contains(expected), "{reason}")
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_user_replaces_the_default_user() -> Result<(), StartError> {
        let builder = Server::builder().requirepass("secret");
        let server = builder
            .user("default on nopass ~* +@all")
            .start_blocking()?;
        assert_eq!(
            reply(&server, "ACL LIST"),
            "[user default on nopass sanitize-payload ~* resetchannels +@all]"
        );
        Ok(())
    }
}
