//! From PEM files to what the TLS library wants. The only place that reads them, and the only one
//! that says who is believed. What does not hold now, because it has expired or its time has not
//! come, is refused like what cannot be read.

use super::words;
use crate::config::{EndpointTls, ServerTls};
use llmd_discovery::read_file;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, ClientConfig, Error, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Named, so that no other crate of the process decides what TLS is made of.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The files of a port.
pub(super) fn of_server(tls: &ServerTls) -> Vec<PathBuf> {
    let files = [Some(&tls.cert_file), Some(&tls.key_file), tls.client_ca_file.as_ref()];
    files.into_iter().flatten().cloned().collect()
}

/// The files for endpoints.
pub(super) fn of_client(tls: &EndpointTls) -> Vec<PathBuf> {
    [&tls.ca_file, &tls.cert_file, &tls.key_file].into_iter().flatten().cloned().collect()
}

/// What a port shows; TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1.
pub(super) fn server(tls: &ServerTls) -> Result<ServerConfig, String> {
    let (chain, key) = (own("certFile", &tls.cert_file)?, key(&tls.key_file)?);
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &tls.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let roots = Arc::new(roots("clientCaFile", file)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
            let verifier = verifier.build().map_err(|error| at("clientCaFile", file, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let made = builder.with_single_cert(chain, key);
    let mut made = made.map_err(|error| pair(&tls.cert_file, &tls.key_file, &error))?;
    made.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(made)
}

/// How endpoints are spoken to: HTTP/1.1, and never without a certificate that holds.
pub(super) fn client(tls: &EndpointTls) -> Result<ClientConfig, String> {
    let roots = match &tls.ca_file {
        Some(file) => roots("caFile", file)?,
        None => system_roots()?,
    };
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut made = match (&tls.cert_file, &tls.key_file) {
        (Some(cert), Some(file)) => builder
            .with_client_auth_cert(own("certFile", cert)?, key(file)?)
            .map_err(|error| pair(cert, file, &error))?,
        _ => builder.with_no_client_auth(),
    };
    made.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(made)
}

fn at(what: &str, file: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{what}: {}: {why}", file.display())
}

fn chain(what: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read_file(file).map_err(|why| at(what, file, &why))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = read.map_err(|error| at(what, file, &words::of_file(&error)))?;
    if chain.is_empty() {
        return Err(at(what, file, &"holds no certificate; write it in PEM"));
    }
    Ok(chain)
}

/// A certificate that we show, and what leads from it to its authority: whether that is believed is
/// for others to judge, but no client reads on behind one that is damaged.
fn own(what: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = chain(what, file)?;
    for (place, certificate) in chain.iter().enumerate().skip(1) {
        let number = place + 1;
        if let Err(Error::InvalidCertificate(CertificateError::BadEncoding)) =
            ParsedCertificate::try_from(certificate)
        {
            return Err(at(what, file, &format!("certificate {number} of it is damaged")));
        }
        holds_now(certificate).map_err(|error| {
            at(what, file, &format!("certificate {number} of it: {}", words::of(&error)))
        })?;
    }
    let error = holds_now(&chain[0]).err().or_else(|| is_authoritys(&chain[0]));
    error.map_or(Ok(chain), |error| Err(at(what, file, &words::of(&error))))
}

/// Whether it is neither too old nor too new.
fn holds_now(certificate: &CertificateDer<'_>) -> Result<(), Error> {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    match against(certificate) {
        Some(why @ (Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. })) => {
            Err(why.into())
        }
        _ => Ok(()),
    }
}

/// What is wrong with showing it, if it is an authority's own.
fn is_authoritys(certificate: &CertificateDer<'_>) -> Option<Error> {
    let why = against(certificate)?;
    let CertificateError::Other(other) = &why else { return None };
    let known = other.0.downcast_ref::<webpki::Error>();
    matches!(known, Some(webpki::Error::CaUsedAsEndEntity)).then(|| why.into())
}

/// What the check that endpoints undergo has against it. That looks at the time first, then at its
/// use, and finds nobody who signed it then.
fn against(certificate: &CertificateDer<'_>) -> Option<CertificateError> {
    // What is not read here is for whoever uses it to refuse: it may be an old authority's.
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let (nobody, known) = (RootCertStore::empty(), provider().signature_verification_algorithms);
    let now = UnixTime::now();
    match verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], now, known.all) {
        Err(Error::InvalidCertificate(why)) => Some(why),
        _ => None,
    }
}

fn pair(cert: &Path, key: &Path, error: &Error) -> String {
    let files = format!("{}, {}", cert.display(), key.display());
    format!("certFile, keyFile: {files}: {}", words::of(error))
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read_file(file).map_err(|why| at("keyFile", file, &why))?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| at("keyFile", file, &words::of_file(&error)))
}

fn roots(what: &str, file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let mut unusable = None;
    for certificate in chain(what, file)? {
        match holds_now(&certificate) {
            Ok(()) => roots.add(certificate).map_err(|e| at(what, file, &words::of(&e)))?,
            Err(error) => unusable = Some(error),
        }
    }
    // Collections of authorities have old ones among them, which nobody needs.
    match unusable.filter(|_| roots.is_empty()) {
        Some(error) => Err(at(what, file, &words::of(&error))),
        None => Ok(roots),
    }
}

/// Those of the system, as it keeps them up to date; none are built in, which would age.
fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err("the system trusts no authority; name one with caFile".into());
    }
    Ok(roots)
}
