//! Starts a server with the options of the command line, and writes the files with its address.

use super::Error;
use super::options::{ClockMode, Kept, Log, ServerOptions, TlsOptions, YesNo};
use redouble::{Clock, Persistence, Server, ServerBuilder};
use std::path::{Path, PathBuf};

/// A server and the files that announce it. Dropping this ends the server and removes the files.
pub(super) struct Started {
    // The first field is dropped first: the files outlive the server. A client that reads such a
    // file may be refused, but never connects to another program on the same port.
    server: Server,
    _files: Vec<Announcement>,
}

impl Started {
    pub(super) fn server(&self) -> &Server {
        &self.server
    }
}

/// A file with the address of the server, or with the certificate authority to trust.
pub(super) struct Announcement(PathBuf);

impl Announcement {
    pub(super) fn write(file: &Path, text: &str) -> Result<Self, Error> {
        // A program that waits for the file must never read half of it.
        let mut part = file.as_os_str().to_owned();
        part.push(".part");
        std::fs::write(&part, text)
            .and_then(|()| std::fs::rename(&part, file))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        Ok(Self(file.to_owned()))
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// The settings that apply to a single server and to each node of a topology.
pub(super) fn builder(options: &ServerOptions) -> Result<ServerBuilder, Error> {
    let clock = match options.clock {
        ClockMode::System => Clock::System,
        ClockMode::Manual => Clock::Manual,
    };
    let persistence = match options.persistence {
        Kept::None => Persistence::None,
        Kept::Everysec => Persistence::EverySecond,
        Kept::Always => Persistence::Always,
    };
    let maxclients = usize::try_from(options.maxclients)?;
    let mut builder = Server::builder()
        .clock(clock)
        .starting_at(options.clock_start.time())
        .seed(options.seed)
        .compat(options.compat)
        .bind(options.bind)
        .port(options.port)
        .protected_mode(options.protected_mode == YesNo::Yes)
        .databases(options.databases.into())
        .requirepass(options.requirepass.clone().unwrap_or_default())
        .persistence(persistence)
        .history(options.history.unwrap_or(0))
        .control(options.control)
        .configure(|config| config.maxclients = maxclients);
    for user in &options.user {
        builder = builder.user(user.as_str());
    }
    if let Some(file) = &options.aclfile {
        builder = builder.acl_file(file);
    }
    if let Some(dir) = &options.dir {
        builder = builder.dir(dir).dbfilename(&options.dbfilename);
    }
    if let Some(port) = options.control_port {
        builder = builder.control_port(port);
    }
    Ok(builder)
}

pub(super) fn start(options: &ServerOptions) -> Result<Started, Error> {
    log_to_stderr(options.log);
    let mut builder = builder(options)?;
    if options.no_tcp {
        builder = builder.without_tcp();
    }
    #[cfg(unix)]
    if let Some(path) = &options.unix_socket {
        builder = builder
            .unix_socket(path)
            .unix_socket_permissions(options.unix_socket_perm.unwrap_or(0));
    }
    if options.tls.tls_port.is_some() {
        builder = with_tls(builder, &options.tls)?;
    }
    let server = builder.start_blocking()?;
    let mut files = Vec::new();
    if let Some(file) = &options.port_file {
        let port = server
            .listen()
            .map_err(|_unix_alone| "--port-file needs a port: a Unix socket has none")?
            .port();
        files.push(Announcement::write(file, &format!("{port}\n"))?);
    }
    #[cfg(feature = "tls")]
    if let (Some(file), Some(ca)) = (&options.tls.tls_write_ca, server.tls_ca_pem()) {
        files.push(Announcement::write(file, &ca)?);
    }
    Ok(Started {
        server,
        _files: files,
    })
}

#[cfg(not(feature = "tls"))]
fn with_tls(_: ServerBuilder, _: &TlsOptions) -> Result<ServerBuilder, Error> {
    Err("built without TLS: use cargo install redouble --features cli,tls".into())
}

#[cfg(feature = "tls")]
fn with_tls(builder: ServerBuilder, options: &TlsOptions) -> Result<ServerBuilder, Error> {
    use super::options::AuthClients;
    use redouble::ClientCertificates;
    let read = |file: &PathBuf| {
        std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
    };
    let mut builder = builder.tls_port(options.tls_port.unwrap_or(0));
    builder = match (&options.tls_cert_file, &options.tls_key_file) {
        (Some(certificate), Some(key)) => builder.tls_with(read(certificate)?, read(key)?),
        // The command line requires one of the two.
        _ => builder.tls(),
    };
    if let Some(file) = &options.tls_ca_cert_file {
        builder = builder.tls_client_ca(read(file)?);
    }
    if let Some(clients) = options.tls_auth_clients {
        builder = builder.tls_clients(match clients {
            AuthClients::Yes => ClientCertificates::Required,
            AuthClients::No => ClientCertificates::No,
            AuthClients::Optional => ClientCertificates::Optional,
        });
    }
    Ok(builder)
}

pub(super) fn log_to_stderr(log: Log) {
    let level = match log {
        Log::Off => return,
        Log::Error => tracing::Level::ERROR,
        Log::Warn => tracing::Level::WARN,
        Log::Info => tracing::Level::INFO,
        Log::Debug => tracing::Level::DEBUG,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .init();
}
