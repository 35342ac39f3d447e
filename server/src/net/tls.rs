//! TLS: the certificates of a server, what it asks of its clients, and how connections are accepted.
//! Certificates are judged by the time of the operating system, whatever the server's clock shows.

use super::peer::Wire;
use super::sockets::Acceptor;
use super::tcp;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use tokio::io::AsyncWrite as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

/// Whether clients show a certificate (`tls-auth-clients`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked.
    No,
    /// One that is shown has to be good; a client may have none.
    Optional,
    /// Without a good one there is no connection.
    Required,
}

/// What a server's TLS is to be.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    /// 0 takes a free one.
    pub(crate) port: u16,
    /// The PEM of the certificate, with its chain, and of its key; `None` makes throw-away ones.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The PEM of who vouches for clients; `None` is who vouches for a throw-away certificate.
    pub(crate) client_ca: Option<Vec<u8>>,
    /// `None` is required with `client_ca`, and not asked without.
    pub(crate) clients: Option<ClientCertificates>,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys are nobody's business.
        f.debug_struct("Settings")
            .field("port", &self.port)
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

/// What the clients of a server with a throw-away certificate need, as PEM.
#[derive(Clone)]
pub(crate) struct ThrowAway {
    pub(crate) ca: String,
    /// A client's certificate, and its key.
    pub(crate) client: (String, String),
}

impl std::fmt::Debug for ThrowAway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThrowAway").finish_non_exhaustive()
    }
}

/// Makes TLS of accepted connections.
pub(crate) struct TlsHandshake(TlsAcceptor);

impl std::fmt::Debug for TlsHandshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsHandshake").finish_non_exhaustive()
    }
}

/// An error in what the user gave.
fn wrong(what: &str, error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what}: {error}"))
}

fn certificates(what: &str, pem: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(what, error))?;
    if found.is_empty() {
        return Err(wrong(what, "there is no certificate in PEM"));
    }
    Ok(found)
}

impl Settings {
    /// Prepares to accept on `bind`; gives what clients need when the certificate is a throw-away one.
    pub(crate) fn acceptor(&self, bind: IpAddr) -> io::Result<(TlsHandshake, Option<ThrowAway>)> {
        let (identity, throw_away) = match &self.identity {
            Some(identity) => (identity.clone(), None),
            None => {
                let (identity, throw_away) =
                    throw_away(bind).map_err(|error| io::Error::other(error.to_string()))?;
                (identity, Some(throw_away))
            }
        };
        let chain = certificates("the server's certificate", &identity.0)?;
        let key = PrivateKeyDer::from_pem_slice(&identity.1)
            .map_err(|error| wrong("the key of the server's certificate", error))?;
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let asked = self.clients.unwrap_or(match self.client_ca {
            Some(_) => ClientCertificates::Required,
            None => ClientCertificates::No,
        });
        let config = if asked == ClientCertificates::No {
            config.with_no_client_auth()
        } else {
            let what = "the certificate authority of clients";
            let own = throw_away.as_ref().map(|made| made.ca.as_bytes());
            let pem = self.client_ca.as_deref().or(own);
            let pem = pem.ok_or_else(|| wrong(what, "client certificates need one"))?;
            let mut roots = RootCertStore::empty();
            for certificate in certificates(what, pem)? {
                roots.add(certificate).map_err(|error| wrong(what, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match asked {
                ClientCertificates::Optional => verifier.allow_unauthenticated(),
                ClientCertificates::No | ClientCertificates::Required => verifier,
            };
            config.with_client_cert_verifier(verifier.build().map_err(|error| wrong(what, error))?)
        };
        let config = config
            .with_single_cert(chain, key)
            .map_err(|error| wrong("the server's certificate and its key", error))?;
        Ok((
            TlsHandshake(TlsAcceptor::from(Arc::new(config))),
            throw_away,
        ))
    }
}

/// A certificate and its key, as PEM.
type Identity = (Vec<u8>, Vec<u8>);

/// Makes a certificate authority, with a certificate of its own for a server on this machine and one
/// for its clients. Its keys come from the operating system: what is secret cannot come from a seed,
/// and nothing of it shows in what the server answers.
fn throw_away(bind: IpAddr) -> Result<(Identity, ThrowAway), rcgen::Error> {
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "redouble throw-away CA");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;

    let issue = |name: &str, names: Vec<String>, usage| {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok::<_, rcgen::Error>((certificate.pem(), key.serialize_pem()))
    };
    let mut names = ["localhost", "127.0.0.1", "::1"]
        .map(str::to_owned)
        .to_vec();
    if !bind.is_loopback() && !bind.is_unspecified() {
        names.push(bind.to_string());
    }
    let (chain, key) = issue("redouble", names, ExtendedKeyUsagePurpose::ServerAuth)?;
    let client = issue("client", vec![], ExtendedKeyUsagePurpose::ClientAuth)?;
    let ca = issuer.pem();
    Ok(((chain.into(), key.into()), ThrowAway { ca, client }))
}

impl Wire for TlsStream<TcpStream> {
    fn reset(&self) {
        self.get_ref().0.reset();
    }

    fn farewell(&mut self, cx: &mut Context<'_>) {
        // So that the client can tell the end from a cut. If it does not read, it is cut.
        let _sent_or_not = Pin::new(self).poll_shutdown(cx);
    }
}

pub(super) async fn accept(
    listener: std::net::TcpListener,
    acceptor: &TlsHandshake,
    door: &Acceptor,
) -> io::Result<Infallible> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        if let Some((stream, addr, laddr)) = tcp::next(&listener, door).await {
            let TlsHandshake(acceptor) = acceptor;
            let acceptor = acceptor.clone();
            // As in Redis nothing but `maxclients` bounds a handshake that the client does not go on with.
            door.open(addr, laddr, async move {
                acceptor.accept(TcpStream::from_std(stream)?).await
            });
        }
    }
}
