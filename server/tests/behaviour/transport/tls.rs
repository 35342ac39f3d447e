//! TLS.

use super::{Error, PATIENCE, Test, ask, check, expect, has_ended};
use redis::{AsyncTypedCommands, ClientTlsConfig, TlsCertificates};
use redouble::{ClientCertificates, Server, ServerBuilder};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn dial(server: &Server) -> io::Result<Stream> {
    let ca = server.tls_ca_pem().expect("a throw-away certificate");
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::from_pem_slice(ca.as_bytes()));
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().map_err(io::Error::other)?;
    let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let stream = TcpStream::connect(server.tls_addr().expect("it listens for TLS"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(StreamOwned::new(session, stream))
}

fn builder() -> ServerBuilder {
    Server::builder().without_tcp().tls()
}

#[test]
fn tls_serves_as_all_transports_do() -> Test {
    check(|builder| builder.without_tcp().tls(), dial)
}

#[test]
fn tls_12_is_spoken_too() -> Test {
    check(
        |builder| builder.tls(),
        |server| {
            let ca = server.tls_ca_pem().expect("a throw-away certificate");
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(CertificateDer::from_pem_slice(ca.as_bytes()));
            let version = &rustls::version::TLS12;
            let config = ClientConfig::builder_with_protocol_versions(&[version])
                .with_root_certificates(roots)
                .with_no_client_auth();
            let ip = server.tls_addr().expect("it listens for TLS").ip().into();
            let session = ClientConnection::new(Arc::new(config), ip).map_err(io::Error::other)?;
            let stream = TcpStream::connect(server.tls_addr().expect("it listens for TLS"))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(StreamOwned::new(session, stream))
        },
    )
}

/// Sends PING with the `redis` crate, sync and async.
fn ping(server: &Server, ca: &str, identity: Option<(String, String)>) -> Test {
    let certificates = TlsCertificates {
        client_tls: identity.map(|(certificate, key)| ClientTlsConfig {
            client_cert: certificate.into(),
            client_key: key.into(),
        }),
        root_cert: Some(ca.as_bytes().to_vec()),
    };
    let client =
        redis::Client::build_with_tls(server.tls_url().expect("it listens for TLS"), certificates)?;
    redis::cmd("SET")
        .arg("k")
        .arg("v")
        .exec(&mut client.get_connection()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut client = client.get_multiplexed_async_connection().await?;
        assert_eq!(client.get("k").await?.as_deref(), Some("v"));
        Ok(())
    })
}

#[test]
fn the_redis_crate_connects_without_any_file() -> Test {
    let server = builder().start_blocking()?;
    assert_eq!(Some(server.url()), server.tls_url());
    assert!(server.url().starts_with("rediss://127.0.0.1:"));
    ping(&server, &server.tls_ca_pem().ok_or("made")?, None)?;
    let stranger = builder().start_blocking()?;
    let refused = ping(&server, &stranger.tls_ca_pem().ok_or("made")?, None);
    assert!(
        refused.is_err(),
        "no certificate is good for another server"
    );
    Ok(())
}

#[test]
fn clients_show_certificates_when_asked() -> Test {
    use ClientCertificates::{No, Optional, Required};
    let stranger = builder().start_blocking()?.tls_client_pem();
    for (asked, without, with_a_strangers) in [
        (No, true, true),
        (Optional, true, false),
        (Required, false, false),
    ] {
        let server = builder().tls_clients(asked).start_blocking()?;
        let ca = server.tls_ca_pem().ok_or("made")?;
        assert_eq!(ping(&server, &ca, None).is_ok(), without, "{asked:?}");
        ping(&server, &ca, server.tls_client_pem())?;
        let strange = ping(&server, &ca, stranger.clone()).is_ok();
        assert_eq!(strange, with_a_strangers, "{asked:?}");
    }
    Ok(())
}

#[test]
fn certificates_of_ones_own_are_used() -> Test {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let friends = builder().start_blocking()?;
    let server = Server::builder()
        .tls_with(certificate.clone(), key)
        .tls_client_ca(friends.tls_ca_pem().ok_or("made")?)
        .start_blocking()?;
    assert_eq!((server.tls_ca_pem(), server.tls_client_pem()), (None, None));
    assert!(server.url().starts_with("redis://"), "TCP comes first");
    ping(&server, &certificate, friends.tls_client_pem())?;
    assert!(ping(&server, &certificate, None).is_err());
    Ok(())
}

/// `openssl req -x509` marks a certificate that it makes as an authority.
#[test]
fn a_client_shows_the_trusted_certificate_itself() -> Test {
    let made = |year| {
        let mut params = rcgen::CertificateParams::new(vec!["client".to_owned()])?;
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok::<_, rcgen::Error>((certificate, key.serialize_pem()))
    };
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let ca = own.cert.pem();
    let (trusted, other, expired) = (made(2999)?, made(2999)?, made(2001)?);
    let serving = |trusted: &(String, String)| {
        let server = Server::builder().tls_with(ca.clone(), own.signing_key.serialize_pem());
        server.tls_client_ca(trusted.0.clone()).start_blocking()
    };
    let server = serving(&trusted)?;
    ping(&server, &ca, Some(trusted))?;
    assert!(ping(&server, &ca, Some(other)).is_err());
    let server = serving(&expired)?;
    assert!(ping(&server, &ca, Some(expired)).is_err());
    Ok(())
}

#[test]
fn invalid_certificates_are_explained() -> Test {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let check = |builder: ServerBuilder, words: &str| -> Test {
        let error = builder.start_blocking().err().ok_or("refused")?;
        let words = format!("cannot set up TLS: {words}");
        assert!(error.to_string().starts_with(&words), "{error}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
        Ok(())
    };
    let with = |certificate: &str, key: &str| {
        Server::builder().tls_with(certificate.to_owned(), key.to_owned())
    };
    check(with("nonsense", &key), "the server's certificate: ")?;
    check(
        with(&certificate, "nonsense"),
        "the key of the server's certificate: ",
    )?;
    let keys = "the server's certificate and its key: ";
    check(with(&certificate, &other.signing_key.serialize_pem()), keys)?;
    let authority = "the certificate authority of clients: ";
    check(
        with(&certificate, &key).tls_client_ca("nonsense"),
        authority,
    )?;
    check(
        with(&certificate, &key).tls_clients(ClientCertificates::Required),
        authority,
    )
}

/// Bytes that are not TLS end the connection, and a handshake that stops does not block other
/// clients.
#[test]
fn clients_that_speak_no_tls_are_turned_away() -> Test {
    let server = builder().start_blocking()?;
    let mut plain = TcpStream::connect(server.tls_addr().expect("it listens for TLS"))?;
    plain.set_read_timeout(Some(PATIENCE))?;
    let mut silent = TcpStream::connect(server.tls_addr().expect("it listens for TLS"))?;
    ask(&mut plain, b"PING\r\n")?;
    let mut alert = Vec::new();
    let _cut = io::Read::read_to_end(&mut plain, &mut alert);
    assert!(!alert.starts_with(b"+"), "{alert:?}");
    let mut good = dial(&server)?;
    ask(&mut good, b"PING\r\n")?;
    expect(&mut good, b"+PONG\r\n")?;
    drop(server);
    silent.set_read_timeout(Some(PATIENCE))?;
    assert!(has_ended(&mut silent));
    Ok(())
}

/// Another implementation of TLS: OpenSSL, in redis-cli.
#[test]
fn redis_cli_connects() -> Test {
    if Command::new("redis-cli")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        assert!(std::env::var_os("CI").is_none(), "redis-cli belongs to CI");
        eprintln!("no redis-cli here: only rustls was tried");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let server = builder()
        .tls_clients(ClientCertificates::Required)
        .start_blocking()?;
    let file = |name: &str, pem: Option<String>| -> Result<String, Error> {
        let path = folder.path().join(name);
        std::fs::write(&path, pem.ok_or("made")?)?;
        Ok(path.to_str().ok_or("a path")?.to_owned())
    };
    let (certificate, key) = server.tls_client_pem().unzip();
    let said = Command::new("redis-cli")
        .args([
            "--tls",
            "-h",
            "localhost",
            "-p",
            &server
                .tls_addr()
                .expect("it listens for TLS")
                .port()
                .to_string(),
        ])
        .args(["--cacert", &file("ca", server.tls_ca_pem())?])
        .args([
            "--cert",
            &file("certificate", certificate)?,
            "--key",
            &file("key", key)?,
        ])
        .args(["SET", "k", "from redis-cli"])
        .output()?;
    assert_eq!(
        String::from_utf8(said.stdout)?,
        "OK\n",
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    assert_eq!(server.get("k").as_deref(), Some(&b"from redis-cli"[..]));
    Ok(())
}
