//! TLS: the certificates of a server and of its clients. Certificates are valid or not by the clock of the operating
//! system, whatever the server's clock shows.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Whether clients have to show a certificate (`tls-auth-clients`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// The server does not ask for a certificate.
    No,
    /// A client can connect without a certificate. A certificate that it shows must be valid.
    Optional,
    /// Every client must show a valid certificate.
    Required,
}

/// Settings of a server's TLS socket.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    /// The port; 0 takes a free one.
    pub(crate) port: u16,
    /// The certificate with its chain, and its key, as PEM. `None` makes a throw-away certificate.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The certificate authority of the clients, as PEM. `None` is the authority of the throw-away certificate.
    pub(crate) client_ca: Option<Vec<u8>>,
    /// `None` means `Required` if there is a `client_ca`, and `NotAsked` otherwise.
    pub(crate) clients: Option<ClientCertificates>,
}

impl std::fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys do not belong in a log.
        f.debug_struct("TlsSettings")
            .field("port", &self.port)
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

/// The PEM that clients of a server with a throw-away certificate need.
#[derive(Clone)]
pub(crate) struct ThrowAway {
    pub(crate) ca: String,
    /// A certificate for a client, and its key.
    pub(crate) client: (String, String),
}

impl std::fmt::Debug for ThrowAway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThrowAway").finish_non_exhaustive()
    }
}

/// Begins TLS on accepted connections.
pub(crate) struct TlsHandshake(Arc<ServerConfig>);

impl TlsHandshake {
    /// Returns the TLS session of a new connection. As in Redis, only `maxclients` limits the number of unfinished
    /// handshakes.
    pub(super) fn begin(&self) -> Result<ServerConnection, Error> {
        ServerConnection::new(self.0.clone())
    }
}

impl std::fmt::Debug for TlsHandshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsHandshake").finish_non_exhaustive()
    }
}

/// An error in the user's settings.
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

impl TlsSettings {
    /// Prepares TLS for connections that are accepted on `bind`. Returns the PEM that clients need if the certificate is a
    /// throw-away one.
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
            let trusted = certificates(what, pem)?;
            let mut roots = RootCertStore::empty();
            for certificate in &trusted {
                let added = roots.add(certificate.clone());
                added.map_err(|error| wrong(what, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match asked {
                ClientCertificates::Optional => verifier.allow_unauthenticated(),
                ClientCertificates::No | ClientCertificates::Required => verifier,
            };
            let authority = verifier.build().map_err(|error| wrong(what, error))?;
            config.with_client_cert_verifier(Arc::new(ClientVerifier { authority, trusted }))
        };
        let config = config
            .with_single_cert(chain, key)
            .map_err(|error| wrong("the server's certificate and its key", error))?;
        Ok((TlsHandshake(Arc::new(config)), throw_away))
    }
}

/// Accepts the certificates of trusted authorities, and a trusted certificate itself, as OpenSSL does: `openssl req -x509` marks the
/// certificates that it makes as authorities, and webpki takes those for no client.
#[derive(Debug)]
struct ClientVerifier {
    authority: Arc<dyn ClientCertVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.authority.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.authority.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.authority.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = (self.authority).verify_client_cert(end_entity, intermediates, now);
        // What is wrong with its times or its signature has an error of its own.
        if matches!(
            verified,
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
        ) && self.trusted.contains(end_entity)
        {
            return Ok(ClientCertVerified::assertion());
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authority.supported_verify_schemes()
    }
}

/// A certificate and its key, as PEM.
type Identity = (Vec<u8>, Vec<u8>);

/// Makes a certificate authority, a certificate for a server on this machine, and one for its clients. The keys come from
/// the randomness of the operating system, because a secret cannot come from a seed. No reply depends on them.
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
