//! Storage of the users for ACL LOAD and ACL SAVE. The engine accesses no files.

use std::fmt;
use std::io;

/// The file of users (`aclfile`), as the program that owns the node reads and writes it.
pub trait AclStore: fmt::Debug + Send + Sync {
    /// Its name, as CONFIG GET and error replies show it.
    fn name(&self) -> &str;
    /// Reads all of it.
    ///
    /// # Errors
    /// The reason of the operating system.
    fn read(&self) -> io::Result<Vec<u8>>;
    /// Replaces all of it, whole or not at all.
    ///
    /// # Errors
    /// The reason of the operating system.
    fn write(&self, text: &[u8]) -> io::Result<()>;
}
