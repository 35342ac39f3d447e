//! A folder of the file system as the storage of a node: `--dir`.

use crate::engine::Storage;
use std::io;
use std::path::{Path, PathBuf};

/// A folder. Files are replaced as a whole: a reader never sees half of one.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// # Errors
    /// There is no such folder.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        if path.is_dir() {
            Ok(Self(path))
        } else {
            Err(io::Error::from(io::ErrorKind::NotADirectory))
        }
    }

    fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = self.0.join(name);
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut part = file.clone().into_os_string();
        part.push(format!(".{}.part", std::process::id()));
        std::fs::write(&part, bytes)?;
        std::fs::rename(&part, &file)
    }
}

impl Storage for Folder {
    fn folder(&self) -> String {
        self.0.display().to_string()
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let written = self.write_file(name, bytes);
        written.map_err(|error| format!("cannot write {name}: {error}"))
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        match std::fs::read(self.0.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read {name}: {error}")),
        }
    }
}
