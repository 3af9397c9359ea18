//! One look at a name: what a name server says of its addresses, or that it says nothing.
//!
//! Called by the source `dns`. The library asks (UDP, TCP for what is too long for it, aliases,
//! further servers); which names a short one may stand for is decided here, because a failure must
//! not pass for "no such name" when the next name in the list has none. Nothing is remembered: the
//! system's settings are read for each look, since they change.

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use hickory_resolver::{Resolver, TokioResolver};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// For one try of one server.
const TRY: Duration = Duration::from_secs(2);
/// For all of a look.
const LOOK: Duration = Duration::from_secs(5);

/// What is known of the addresses of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// These, in order, and for how long they are good.
    Addresses { found: Vec<IpAddr>, ttl: Duration },
    /// There is none.
    Nothing,
    /// Nobody knows.
    Failed(String),
}

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) v4: Answer,
    pub(super) v6: Answer,
}

/// Asks for both kinds of addresses of the name.
pub(super) async fn look(name: &str, resolver: Option<SocketAddr>) -> Look {
    let looking = async {
        let (config, options) = settings(resolver)?;
        look_at(name, config, options).await
    };
    let looking = tokio::time::timeout(LOOK, looking).await;
    let late = || Err(format!("no answer within {} s", LOOK.as_secs()));
    looking.unwrap_or_else(|_| late()).unwrap_or_else(|why| {
        let failed = Answer::Failed(why);
        Look { v4: failed.clone(), v6: failed }
    })
}

async fn look_at(
    name: &str,
    config: ResolverConfig,
    options: ResolverOpts,
) -> Result<Look, String> {
    let names = candidates(name, &config, options.ndots)?;
    let resolver = Resolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
        .map_err(|error| told(&error))?;
    for name in names {
        let (v4, v6) = tokio::join!(
            ask(&resolver, &name, RecordType::A),
            ask(&resolver, &name, RecordType::AAAA)
        );
        match (v4, v6) {
            (Said::NoSuchName, Said::NoSuchName) => {}
            // Which of the two is wrong cannot be told.
            (Said::NoSuchName, Said::Known(Answer::Failed(why)))
            | (Said::Known(Answer::Failed(why)), Said::NoSuchName) => return Err(why),
            (v4, v6) => return Ok(Look { v4: v4.answer(), v6: v6.answer() }),
        }
    }
    Ok(Look { v4: Answer::Nothing, v6: Answer::Nothing })
}

/// Which servers are asked, and how.
fn settings(resolver: Option<SocketAddr>) -> Result<(ResolverConfig, ResolverOpts), String> {
    let (config, mut options) = match resolver {
        None => read_system_conf().map_err(|error| format!("/etc/resolv.conf: {error}"))?,
        Some(address) => {
            let (mut udp, mut tcp) = (ConnectionConfig::udp(), ConnectionConfig::tcp());
            (udp.port, tcp.port) = (address.port(), address.port());
            let server = NameServerConfig::new(address.ip(), true, vec![udp, tcp]);
            (ResolverConfig::from_name_servers(vec![server]), ResolverOpts::default())
        }
    };
    options.timeout = options.timeout.min(TRY);
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    Ok((config, options))
}

/// The whole names that this one may stand for, in the order in which they are asked for.
fn candidates(name: &str, config: &ResolverConfig, dots: usize) -> Result<Vec<Name>, String> {
    let name = Name::from_ascii(name).map_err(|error| format!("it is no name: {error}"))?;
    if name.is_fqdn() {
        return Ok(vec![name]);
    }
    let mut whole = name.clone();
    whole.set_fqdn(true);
    let listed = match config.search() {
        [] => config.domain().into_iter().collect(),
        search => search.iter().collect::<Vec<_>>(),
    };
    // One that would be too long is none.
    let longer = listed.into_iter().filter_map(|domain| name.clone().append_domain(domain).ok());
    let mut names: Vec<Name> = longer.collect();
    let at = if usize::from(name.num_labels()) > dots { 0 } else { names.len() };
    names.insert(at, whole);
    Ok(names)
}

/// What was said of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Known(Answer),
    NoSuchName,
}

impl Said {
    fn answer(self) -> Answer {
        match self {
            Self::Known(answer) => answer,
            Self::NoSuchName => Answer::Nothing,
        }
    }
}

async fn ask(resolver: &TokioResolver, name: &Name, kind: RecordType) -> Said {
    let lookup = match resolver.lookup(name.clone(), kind).await {
        Ok(lookup) => lookup,
        Err(NetError::Dns(DnsError::NoRecordsFound(none))) => {
            return match none.response_code {
                ResponseCode::NXDomain => Said::NoSuchName,
                _ => Said::Known(Answer::Nothing),
            };
        }
        Err(error) => return Said::Known(Answer::Failed(told(&error))),
    };
    let records = lookup.answers().iter().filter_map(|record| match &record.data {
        RData::A(address) => Some((IpAddr::V4(address.0), record.ttl)),
        RData::AAAA(address) => Some((IpAddr::V6(address.0), record.ttl)),
        _ => None,
    });
    // Where nobody can listen nobody is asked: the first would be this machine.
    let usable = |ip: &IpAddr| !ip.is_unspecified() && !ip.is_multicast();
    let records: Vec<(IpAddr, u32)> = records.filter(|(ip, _)| usable(ip)).collect();
    let Some(ttl) = records.iter().map(|(_, ttl)| *ttl).min() else {
        return Said::Known(Answer::Nothing);
    };
    let mut found: Vec<IpAddr> = records.into_iter().map(|(ip, _)| ip).collect();
    found.sort_unstable();
    found.dedup();
    Said::Known(Answer::Addresses { found, ttl: Duration::from_secs(u64::from(ttl)) })
}

/// A failure in words that stay the same as long as it does.
fn told(error: &NetError) -> String {
    match error {
        NetError::Timeout => "the name server does not answer".into(),
        NetError::Dns(DnsError::ResponseCode(code)) => format!("the name server says {code}"),
        NetError::Io(cause) => format!("the name server cannot be asked: {}", cause.kind()),
        other => format!("the name server is not understood: {other}"),
    }
}

#[cfg(test)]
mod tests;
