//! What the TLS libraries say, in words and with what to do about it.
//!
//! Used where files are read and where a handshake failed. Words are for people only: nothing is
//! decided by them.

use crate::date::rfc3339;
use rustls::pki_types::{UnixTime, pem};
use rustls::{AlertDescription, CertificateError, Error, InconsistentKeys};
use std::error::Error as StdError;
use std::fmt::Debug;
use std::io;

/// What is wrong with the TLS of a connection; `None` when nothing of an error is about TLS.
pub(crate) fn told(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<Error>() {
            return Some(of(tls));
        }
        // An I/O error is not the source of what it wraps, but the same.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// Of an error of the library.
pub(super) fn of(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => certificate(why),
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            "the key is not that of the certificate; write two that were made together".into()
        }
        Error::AlertReceived(alert) => alert_text(*alert),
        Error::InvalidMessage(_) => {
            "what came is no TLS; leave `tls` out where plain HTTP is spoken".into()
        }
        Error::PeerIncompatible(why) => {
            format!("there is no TLS that both sides speak ({}); allow TLS 1.2 or 1.3", plain(why))
        }
        Error::General(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Of a certificate that is not accepted: a peer's, or one in a file.
fn certificate(why: &CertificateError) -> String {
    use CertificateError as C;
    let text = match why {
        C::ExpiredContext { not_after, .. } => {
            return format!("the certificate expired at {}; renew it", date(*not_after));
        }
        C::NotValidYetContext { not_before, .. } => {
            return format!(
                "the certificate is not valid before {}; wait, or set the clock right",
                date(*not_before)
            );
        }
        C::NotValidForNameContext { expected, presented } => {
            let has: Vec<_> = presented.iter().map(|name| inner(name)).collect();
            return format!(
                "the certificate is not valid for name `{}`, only for: {}; set `serverName` to one \
                 of them",
                expected.to_str(),
                has.join(", ")
            );
        }
        C::UnknownIssuer => {
            "the certificate is signed by nobody who is trusted; name its authority in `caFile`"
        }
        C::Expired => "the certificate expired; renew it",
        C::NotValidYet => "the certificate is not valid yet; wait, or set the clock right",
        C::NotValidForName => "the certificate is not valid for that name; set `serverName`",
        C::BadEncoding => "the certificate is damaged; write it anew",
        C::BadSignature => {
            "the certificate is not signed by the authority that it names; sign it anew, or name \
             the right authority in `caFile`"
        }
        C::InvalidPurpose | C::InvalidPurposeContext { .. } => {
            "the certificate is not made for this use; make one whose extended key usage has \
             serverAuth for a server, clientAuth for a client"
        }
        C::Other(other) => {
            return match other.0.downcast_ref::<webpki::Error>() {
                Some(why) => odd_certificate(why),
                None => format!("the certificate is not accepted: {}", other.0),
            };
        }
        other => return format!("the certificate is not accepted: {other}"),
    };
    text.into()
}

/// Of what the library has no name for.
fn odd_certificate(why: &webpki::Error) -> String {
    use webpki::Error as W;
    match why {
        W::CaUsedAsEndEntity => "the certificate is that of an authority, which must not be shown \
                                 itself; make one with basicConstraints CA:FALSE"
            .into(),
        W::EndEntityUsedAsCa => "the certificate is signed by one that is no authority's; sign \
                                 with one that has basicConstraints CA:TRUE"
            .into(),
        W::UnsupportedCertVersion => {
            "the certificate is older than X.509 version 3; make one with a subjectAltName".into()
        }
        other => format!("the certificate is not accepted ({}); make another one", plain(other)),
    }
}

/// Of what the other side has against ours.
fn alert_text(alert: AlertDescription) -> String {
    use AlertDescription as A;
    let text = match alert {
        A::CertificateRequired => {
            "the other side wants a certificate; set `certFile` and `keyFile`"
        }
        A::UnknownCA => {
            "the other side does not trust who signed our certificate; sign it by an authority \
             that it knows"
        }
        A::BadCertificate | A::CertificateUnknown | A::UnsupportedCertificate => {
            "the other side does not accept our certificate; set `certFile` and `keyFile` to one \
             that it knows"
        }
        A::CertificateExpired => "the other side says that our certificate expired; renew it",
        A::HandshakeFailure | A::ProtocolVersion | A::InsufficientSecurity => {
            "there is no TLS that both sides speak; allow TLS 1.2 or 1.3"
        }
        A::UnrecognisedName => "the other side does not know that name; set `serverName`",
        other => return format!("the other side ended it ({})", plain(&other)),
    };
    text.into()
}

/// Of a PEM file.
pub(super) fn of_file(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "holds none in PEM, or an encrypted one".into(),
        pem::Error::MissingSectionEnd { .. } => "is cut off: it has no -----END line".into(),
        pem::Error::IllegalSectionStart { .. } => "is damaged: a -----BEGIN line is wrong".into(),
        pem::Error::Base64Decode(_) => "is damaged: what it holds is not base64".into(),
        other => other.to_string(),
    }
}

/// The first second of a certificate's time, or its last.
pub(super) fn date(time: UnixTime) -> String {
    rfc3339(time.as_secs().saturating_mul(1_000))
}

/// `DnsName("x")` is `x`.
fn inner(name: &str) -> &str {
    let behind = name.split_once('(').map_or(name, |(_, behind)| behind);
    behind.trim_end_matches(')').trim_matches('"')
}

/// A name of the library's in words: `PathLenConstraintViolated` is `path len constraint violated`.
fn plain(name: &impl Debug) -> String {
    let mut words = String::new();
    for char in format!("{name:?}").chars() {
        if char.is_ascii_uppercase() && words.ends_with(|last: char| last.is_ascii_lowercase()) {
            words.push(' ');
        }
        words.push(char.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::OtherError;
    use rustls::pki_types::ServerName;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn no_name_of_the_library_is_shown_and_all_have_a_remedy() {
        let time = UnixTime::since_unix_epoch(Duration::from_hours(271_752));
        let odd = |why| CertificateError::Other(OtherError(Arc::new(why)));
        let name = CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("x.test").unwrap(),
            presented: vec!["DnsName(\"y.test\")".into(), "IpAddress(10.0.0.7)".into()],
        };
        for (error, words) in [
            (CertificateError::ExpiredContext { time, not_after: time }, "at 2001-01-01T00:00:00"),
            (CertificateError::NotValidYetContext { time, not_before: time }, "before 2001-01-01"),
            (name, "for name `x.test`, only for: y.test, 10.0.0.7; set"),
            (CertificateError::UnknownIssuer, "caFile"),
            (odd(webpki::Error::CaUsedAsEndEntity), "CA:FALSE"),
            (odd(webpki::Error::UnsupportedCertVersion), "version 3"),
            (odd(webpki::Error::PathLenConstraintViolated), "(path len constraint violated)"),
        ] {
            let text = of(&Error::InvalidCertificate(error));
            assert!(text.contains(words) && text.contains("; "), "{text}");
            for debug in ["CaUsed", "Context", "DnsName", "Other", "PathLen"] {
                assert!(!text.contains(debug), "{text}");
            }
        }
    }

    #[test]
    fn an_error_is_found_where_it_is_wrapped() {
        let alert = Error::AlertReceived(AlertDescription::CertificateRequired);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, alert));
        assert!(told(&wrapped).unwrap().contains("certFile"));
        assert_eq!(told(&io::Error::from(io::ErrorKind::TimedOut)), None);
    }
}
