//! The options for the backend on which scenarios are played, the same for all subcommands.

use super::Fallible;
use clap::Args;
use redouble_conformance::backend::{Backend, Double, Real};
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct Where {
    /// Where to run: "double" (embedded; in virtual time, for `foreign` in real time), "spawn" (starts redis-servers of its
    /// own), "spawn:PROGRAM", or redis://HOST:PORT (a server of yours; the suite writes only keys that begin with
    /// redouble-check:).
    #[arg(long, value_name = "WHERE", default_value = "double")]
    backend: String,
    /// With --backend spawn: the program to start, for instance another version of Redis, or
    /// valkey-server [default: the redis-server from the PATH].
    #[arg(long, value_name = "PROGRAM")]
    redis_bin: Option<PathBuf>,
}

impl Where {
    pub(super) fn open(&self) -> Fallible<Box<dyn Backend>> {
        let Self { backend, redis_bin } = self;
        if let Some(program) = redis_bin {
            return match &**backend {
                "spawn" => Ok(Box::new(Real::spawn(program)?)),
                _ => Err(format!("--redis-bin goes with --backend spawn, not {backend}").into()),
            };
        }
        match backend.split_once(':') {
            None if backend == "double" => Ok(Box::new(Double)),
            None if backend == "spawn" => Ok(Box::new(Real::spawn("redis-server")?)),
            Some(("spawn", program)) => Ok(Box::new(Real::spawn(program)?)),
            Some(("redis", _)) => Ok(Box::new(Real::at(backend)?)),
            _ => Err(
                format!("unknown backend {backend:?}: double, spawn or redis://HOST:PORT").into(),
            ),
        }
    }
}
