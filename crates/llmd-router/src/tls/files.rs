//! From PEM files to what the TLS library wants. The only place that reads them, and the only one
//! that says who is believed.

use crate::config::{EndpointTls, ServerTls};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
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
    let (chain, key) = (chain("certFile", &tls.cert_file)?, key(&tls.key_file)?);
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
    let mut made = made.map_err(|error| at("certFile, keyFile", &tls.cert_file, &error))?;
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
            .with_client_auth_cert(chain("certFile", cert)?, key(file)?)
            .map_err(|error| at("certFile, keyFile", cert, &error))?,
        _ => builder.with_no_client_auth(),
    };
    made.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(made)
}

fn at(what: &str, file: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{what}: {}: {why}", file.display())
}

fn chain(what: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = read.map_err(|error| at(what, file, &error))?;
    if chain.is_empty() {
        return Err(at(what, file, &"holds no certificate"));
    }
    Ok(chain)
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| at("keyFile", file, &error))
}

fn roots(what: &str, file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(what, file)? {
        roots.add(certificate).map_err(|error| at(what, file, &error))?;
    }
    Ok(roots)
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
