//! TLS towards clients and towards engines: who is believed, what changes while it runs, and
//! what those are told who speak something else.

use crate::process::{Process, address};
use crate::support::{CHAT, Setup, body, engine, error_code, one_model};
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use llmd_testkit::{Behaviour, Client, FakeEngine, Reply};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

/// Who signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
struct Pair {
    cert: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        Self::until(4000)
    }

    fn until(last_year: i32) -> Self {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.not_after = date_time_ymd(last_year, 1, 1);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pair(&self, name: &str, last_year: i32) -> Pair {
        self.pair_from(name, 1975, last_year)
    }

    fn pair_from(&self, name: &str, first_year: i32, last_year: i32) -> Pair {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(first_year, 1, 1);
        params.not_after = date_time_ymd(last_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// Its own certificate, which is not made to be shown.
    fn itself(&self) -> Pair {
        Pair { cert: self.0.pem(), key: self.0.key().serialize_pem() }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        roots
    }

    /// A client that believes this authority.
    fn client(&self, own: Option<&Pair>, protocols: &[&str]) -> TlsConnector {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots());
        let mut config = match own {
            Some(own) => builder.with_client_auth_cert(own.chain(), own.key()).unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }
}

impl Pair {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap()]
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }

    fn write(&self, folder: &Path, name: &str) {
        std::fs::write(folder.join(format!("{name}.key")), &self.key).unwrap();
        std::fs::write(folder.join(format!("{name}.crt")), &self.cert).unwrap();
    }
}

/// Replaces the head of a configuration, so that the data port has these settings.
fn with_tls(config: &str, tls: &str) -> String {
    config.replace("admin: \"127.0.0.1:0\"", &format!("admin: \"127.0.0.1:0\", {tls}"))
}

/// A router whose data port shows a certificate for `router`.
fn secure(engine: &FakeEngine, authority: &Authority, more: &str) -> Setup {
    let folder = folder();
    authority.pair("router", 2100).write(folder.path(), "router");
    let tls = format!("tls: {{certFile: router.crt, keyFile: router.key{more}}}");
    Setup::start_in(folder, &with_tls(&one_model(&[engine]), &tls))
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), format!("{}\n", crate::support::KEY)).unwrap();
    folder
}

async fn handshake(
    address: SocketAddr,
    client: &TlsConnector,
    name: &str,
) -> io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(address).await?;
    client.connect(ServerName::try_from(name.to_owned()).unwrap(), socket).await
}

fn request() -> Request<Full<Bytes>> {
    let body = Full::new(Bytes::from(body("chat", true)));
    Request::post(format!("https://router{CHAT}")).header("host", "router").body(body).unwrap()
}

/// A stream over a new connection, by what the two sides agree on.
async fn ask(setup: &Setup, client: &TlsConnector) -> Result<(Version, String), String> {
    ask_at(setup.data, client).await
}

async fn ask_at(data: SocketAddr, client: &TlsConnector) -> Result<(Version, String), String> {
    let stream = handshake(data, client, "router").await.map_err(|e| e.to_string())?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let socket = TokioIo::new(stream);
    let told = |error: hyper::Error| format!("{error:?}");
    let response = if http2 {
        let shake = hyper::client::conn::http2::handshake(TokioExecutor::new(), socket).await;
        let (mut sender, driver) = shake.map_err(told)?;
        tokio::spawn(driver);
        sender.send_request(request()).await.map_err(told)?
    } else {
        let shake = hyper::client::conn::http1::handshake(socket).await;
        let (mut sender, driver) = shake.map_err(told)?;
        tokio::spawn(driver);
        sender.send_request(request()).await.map_err(told)?
    };
    let version = response.version();
    let bytes = response.into_body().collect().await.map_err(told)?.to_bytes();
    Ok((version, String::from_utf8_lossy(&bytes).into_owned()))
}

#[tokio::test]
async fn clients_and_router_agree_on_a_version_of_http() {
    let engine = engine(vec![Behaviour::ok()]);
    let authority = Authority::new();
    let setup = secure(&engine, &authority, "");
    for (offered, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let (spoken, text) = ask(&setup, &authority.client(None, offered)).await.unwrap();
        assert_eq!(spoken, version, "{offered:?}");
        assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    }
    let stranger = Authority::new();
    assert!(ask(&setup, &stranger.client(None, &[])).await.is_err(), "who believes another");
    setup.at_rest().await;
}

#[tokio::test]
async fn clients_show_a_certificate_where_one_is_asked_for() {
    let engine = engine(vec![Behaviour::ok()]);
    let (authority, others) = (Authority::new(), Authority::new());
    let folder = folder();
    authority.pair("router", 2100).write(folder.path(), "router");
    std::fs::write(folder.path().join("ca.crt"), others.0.pem()).unwrap();
    let tls = "tls: {certFile: router.crt, keyFile: router.key, clientCaFile: ca.crt}";
    let setup = Setup::start_in(folder, &with_tls(&one_model(&[&engine]), tls));
    let (good, strange, old) =
        (others.pair("me", 2100), authority.pair("me", 2100), others.pair("me", 2001));
    for (who, shown, let_in) in [
        ("none", None, false),
        ("of another authority", Some(&strange), false),
        ("expired", Some(&old), false),
        ("good", Some(&good), true),
    ] {
        for protocols in [&["h2"][..], &["http/1.1"]] {
            let asked = ask(&setup, &authority.client(shown, protocols)).await;
            assert_eq!(asked.is_ok(), let_in, "{who}: {asked:?}");
        }
    }
    assert_eq!(engine.received().len(), 2);
    assert!(setup.metric("llmd_router_tls_handshake_failures_total").await >= 6.0);
}

#[tokio::test]
async fn plain_http_on_a_port_with_tls_is_told_so_and_silence_ends() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = secure(&engine, &Authority::new(), "");
    let reply = setup.ask().await;
    assert_eq!((reply.status, error_code(&reply).as_str()), (400, "invalid_request"));
    assert!(reply.whole && reply.text().contains("https"), "{}", reply.text());
    // A limit of one second for heads: for handshakes as well.
    for begun in [&b""[..], &[22, 3, 1]] {
        let sent = Instant::now();
        let ended = Client::send(setup.data, begun).await.unwrap().reply().await;
        assert!(ended.is_err() && sent.elapsed() < Duration::from_secs(3), "{begun:?}");
    }
    assert!(engine.received().is_empty());
}

/// The serial number that is shown now.
async fn shown(setup: &Setup, authority: &Authority) -> Vec<u8> {
    let stream = handshake(setup.data, &authority.client(None, &[]), "router").await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_new_certificate_is_shown_and_a_bad_one_is_not() {
    let engine = engine(vec![Behaviour::Ok(200, Duration::from_millis(20))]);
    let authority = Authority::new();
    let setup = secure(&engine, &authority, "");
    let first = shown(&setup, &authority).await;
    let client = authority.client(None, &[]);
    let running = ask(&setup, &client);
    let change = async {
        let next = authority.pair("router", 2100);
        // The key alone does not fit: the old pair stays, and that is told.
        setup.replace("router.key", &next.key);
        setup.until(|status| status["certificates"]["problems"][0].is_string()).await;
        assert_eq!(shown(&setup, &authority).await, first);
        setup.replace("router.crt", &next.cert);
        setup.until(|status| status["certificates"]["problems"][0].is_null()).await;
        assert_ne!(shown(&setup, &authority).await, first);
        for (name, bad) in [("router.crt", "no PEM"), ("router.key", "")] {
            let good = std::fs::read_to_string(setup.path(name)).unwrap();
            setup.replace(name, bad);
            setup.until(|status| status["certificates"]["problems"][0].is_string()).await;
            assert_ne!(shown(&setup, &authority).await, first);
            setup.replace(name, &good);
            setup.until(|status| status["certificates"]["problems"][0].is_null()).await;
        }
    };
    let (text, ()) = tokio::join!(running, change);
    assert!(text.unwrap().1.ends_with("data: [DONE]\n\n"), "what runs is not cut");
    for (result, least) in [("applied", 3.0), ("refused", 3.0)] {
        let sample = format!("llmd_router_certificate_reloads_total{{result=\"{result}\"}}");
        assert!(setup.metric(&sample).await >= least, "{result}");
    }
}

#[tokio::test]
async fn other_settings_of_a_port_need_a_restart_that_would_work() {
    let (engine, authority) = (engine(vec![Behaviour::ok()]), Authority::new());
    let setup = secure(&engine, &authority, "");
    authority.pair("other", 2100).write(setup.folder.path(), "other");
    let config = std::fs::read_to_string(setup.path("router.yaml")).unwrap();
    for (from, to, needs_restart) in [
        ("router.crt, keyFile: router.key", "other.crt, keyFile: other.key", true),
        ("tls: {certFile: router.crt, keyFile: router.key}", "", true),
        ("keyFile: router.key", "keyFile: other.key", false),
        ("certFile: router.crt", "certFile: missing.crt", false),
        ("version: 1", "version: 2", false),
    ] {
        let changed = config.replace(from, to);
        assert_ne!(changed, config, "{from}");
        setup.replace("router.yaml", &changed);
        let told = |status: &serde_json::Value| {
            status["config"]["error"].is_string()
                && status["config"]["needsRestart"] == needs_restart
        };
        setup.until(told).await;
        setup.replace("router.yaml", &config);
        setup.until(|status| status["config"]["error"].is_null()).await;
        assert_eq!(setup.status().await["config"]["needsRestart"], false);
    }
}

#[tokio::test]
async fn the_admin_port_has_tls_of_its_own() {
    let engine = engine(vec![Behaviour::ok()]);
    let authority = Authority::new();
    let folder = folder();
    authority.pair("admin", 2100).write(folder.path(), "admin");
    let tls = "adminTls: {certFile: admin.crt, keyFile: admin.key}";
    let setup = Setup::start_in(folder, &with_tls(&one_model(&[&engine]), tls));
    assert_eq!(setup.ask().await.status, 200);
    assert_eq!(setup.get_admin("/healthz").await.status, 400);
    let client = authority.client(None, &[]);
    let stream = handshake(setup.admin, &client, "admin").await.unwrap();
    let shake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, driver) = shake.unwrap();
    tokio::spawn(driver);
    let asked = Request::get("/healthz").header("host", "x").body(Full::<Bytes>::default());
    assert_eq!(sender.send_request(asked.unwrap()).await.unwrap().status(), 200);
}

/// An engine behind TLS: what it shows, and whom it lets in.
struct Secure {
    port: u16,
    shown: Arc<std::sync::Mutex<Arc<ServerConfig>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn server(pair: &Pair, clients: Option<&Authority>) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let roots = Arc::new(authority.roots());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    Arc::new(builder.with_single_cert(pair.chain(), pair.key()).unwrap())
}

impl Secure {
    async fn before(engine: &FakeEngine, config: Arc<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shown = Arc::new(std::sync::Mutex::new(config));
        let (address, now) = (engine.address, Arc::clone(&shown));
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let acceptor = TlsAcceptor::from(Arc::clone(&now.lock().unwrap()));
                tokio::spawn(async move {
                    let mut outside = acceptor.accept(socket).await?;
                    let mut inside = TcpStream::connect(address).await?;
                    tokio::io::copy_bidirectional(&mut outside, &mut inside).await
                });
            }
        });
        Self { port, shown, task }
    }

    /// A configuration with this as its one endpoint.
    fn config(&self, engine: &FakeEngine, tls: &str) -> String {
        let plain = engine.address.port();
        one_model(&[engine])
            .replace(&format!("port: {plain}"), &format!("port: {}", self.port))
            .replace("{name: v,", &format!("{{name: v, tls: {tls},"))
    }
}

/// What becomes of a request to an engine with this certificate, under these settings.
async fn through(
    name: &str,
    last_year: i32,
    tls: &str,
    strict: bool,
) -> (Reply, serde_json::Value) {
    let engine = engine(vec![Behaviour::ok()]);
    engine.metrics("vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n");
    let (authority, ours) = (Authority::new(), Authority::new());
    let folder = folder();
    std::fs::write(folder.path().join("ca.crt"), authority.0.pem()).unwrap();
    std::fs::write(folder.path().join("other.crt"), Authority::new().0.pem()).unwrap();
    ours.pair("router", 2100).write(folder.path(), "own");
    let config = server(&authority.pair(name, last_year), strict.then_some(&ours));
    let secure = Secure::before(&engine, config).await;
    let setup = Setup::start_in(folder, &secure.config(&engine, tls));
    let reply = setup.ask().await;
    if reply.status == 200 {
        // The scraper uses the same connections.
        setup.until(|s| s["models"][0]["endpoints"][0]["reportedRunning"] == 1).await;
    }
    let status = setup.status().await;
    setup.at_rest().await;
    (reply, status)
}

#[tokio::test]
async fn engines_are_believed_by_their_certificate_only() {
    let own = "caFile: ca.crt, certFile: own.crt, keyFile: own.key";
    for (name, last_year, tls, strict, reason) in [
        ("127.0.0.1", 2100, "{caFile: ca.crt}", false, None),
        ("engine.test", 2100, "{caFile: ca.crt, serverName: engine.test}", false, None),
        ("127.0.0.1", 2100, &format!("{{{own}}}"), true, None),
        (
            "engine.test",
            2100,
            "{caFile: ca.crt}",
            false,
            Some("for name `127.0.0.1`, only for: engine.test; set"),
        ),
        (
            "127.0.0.1",
            2100,
            "{caFile: ca.crt, serverName: x.test}",
            false,
            Some("for name `x.test`"),
        ),
        (
            "127.0.0.1",
            2100,
            "{caFile: other.crt}",
            false,
            Some("name the right authority in `caFile`"),
        ),
        (
            "127.0.0.1",
            2001,
            "{caFile: ca.crt}",
            false,
            Some("the certificate expired at 2001-01-01"),
        ),
    ] {
        let (reply, status) = through(name, last_year, tls, strict).await;
        let endpoint = &status["models"][0]["endpoints"][0];
        let Some(reason) = reason else {
            assert_eq!(reply.status, 200, "{name} {tls}: {}", reply.text());
            assert_eq!(endpoint["state"], "ready", "{endpoint}");
            continue;
        };
        assert_eq!(reply.status, 502, "{name} {tls}: {}", reply.text());
        assert_eq!(error_code(&reply), "endpoint_unreachable");
        assert_eq!(endpoint["state"], "down", "{endpoint}");
        assert!(endpoint["unreachable"].as_str().unwrap().contains(reason), "{endpoint}");
    }
    // It asks for a certificate and gets none. Under TLS 1.3 that is told behind the handshake.
    let (reply, _) = through("127.0.0.1", 2100, "{caFile: ca.crt}", true).await;
    assert_eq!(reply.status, 502, "{}", reply.text());
    assert!(reply.text().contains("set `certFile` and `keyFile`"), "{}", reply.text());
}

#[tokio::test]
async fn what_is_wrong_with_an_engines_tls_is_said_in_words_with_a_remedy() {
    let engine = engine(vec![Behaviour::ok()]);
    let authority = Authority::new();
    let secure = Secure::before(&engine, server(&authority.itself(), None)).await;
    let trusting = |config: &str| {
        let folder = folder();
        std::fs::write(folder.path().join("ca.crt"), authority.0.pem()).unwrap();
        Setup::start_in(folder, config)
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = secure
        .config(&engine, "{caFile: ca.crt}")
        .replace(&secure.port.to_string(), &listener.local_addr().unwrap().port().to_string());
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    for (config, words) in [
        (secure.config(&engine, "{caFile: ca.crt}"), "make one with basicConstraints CA:FALSE"),
        (plain, "what came is no TLS; leave `tls` out"),
    ] {
        let setup = trusting(&config);
        let reply = setup.ask().await;
        assert_eq!(error_code(&reply), "endpoint_unreachable");
        assert!(reply.text().contains(words), "{}", reply.text());
    }
}

#[tokio::test]
async fn a_static_endpoint_may_have_settings_of_its_own() {
    let (plain, behind) = (engine(vec![Behaviour::ok()]), engine(vec![Behaviour::ok()]));
    let authority = Authority::new();
    let secure = Secure::before(&behind, server(&authority.pair("127.0.0.1", 2100), None)).await;
    let folder = folder();
    std::fs::write(folder.path().join("ca.crt"), authority.0.pem()).unwrap();
    let port = behind.address.port();
    let own = format!("port: {}, tls: {{caFile: ca.crt}}", secure.port);
    let config = one_model(&[&plain, &behind]).replace(&format!("port: {port}"), &own);
    let setup = Setup::start_in(folder, &config);
    for _ in 0..4 {
        assert_eq!(setup.ask().await.status, 200);
    }
    assert_eq!((plain.received().len(), behind.received().len()), (2, 2));
}

#[tokio::test]
async fn other_settings_for_engines_are_taken_over_while_it_runs() {
    let engine = engine(vec![Behaviour::ok()]);
    let authority = Authority::new();
    let folder = folder();
    std::fs::write(folder.path().join("ca.crt"), authority.0.pem()).unwrap();
    let secure = Secure::before(&engine, server(&authority.pair("x.test", 2100), None)).await;
    let setup = Setup::start_in(folder, &secure.config(&engine, "{caFile: ca.crt}"));
    assert_eq!(setup.ask().await.status, 502);
    let named = secure.config(&engine, "{caFile: ca.crt, serverName: x.test}");
    setup.replace("router.yaml", &named);
    eventually("the name", async || setup.ask().await.status == 200).await;
}

#[tokio::test]
async fn another_authority_of_engines_is_taken_over_while_it_runs() {
    let engine = engine(vec![Behaviour::ok()]);
    let (old, new) = (Authority::new(), Authority::new());
    let folder = folder();
    std::fs::write(folder.path().join("ca.crt"), old.0.pem()).unwrap();
    let config = server(&old.pair("127.0.0.1", 2100), None);
    let secure = Secure::before(&engine, config).await;
    let setup = Setup::start_in(folder, &secure.config(&engine, "{caFile: ca.crt}"));
    assert_eq!(setup.ask().await.status, 200);
    *secure.shown.lock().unwrap() = server(&new.pair("127.0.0.1", 2100), None);
    setup.replace("ca.crt", "nothing");
    setup.until(|status| status["certificates"]["problems"][0].is_string()).await;
    setup.replace("ca.crt", &new.0.pem());
    eventually("the new authority", async || setup.ask().await.status == 200).await;
    setup.until(|status| status["certificates"]["problems"][0].is_null()).await;
}

#[test]
fn what_cannot_be_used_keeps_the_router_from_starting_with_its_place() {
    let engine = engine(vec![Behaviour::ok()]);
    let folder = folder();
    let authority = Authority::new();
    authority.pair("router", 2100).write(folder.path(), "a");
    authority.pair("router", 2100).write(folder.path(), "b");
    authority.pair("router", 2001).write(folder.path(), "old");
    authority.pair_from("router", 2099, 2100).write(folder.path(), "new");
    std::fs::write(folder.path().join("old-ca.crt"), Authority::until(2001).0.pem()).unwrap();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    authority.itself().write(folder.path(), "itself");
    let mut behind = authority.pair("router", 2100);
    behind.cert.push_str(&Authority::until(2001).0.pem());
    behind.write(folder.path(), "behind");
    let port = |tls: &str| with_tls(&one_model(&[&engine]), tls);
    let variant =
        |tls: &str| one_model(&[&engine]).replace("{name: v,", &format!("{{name: v, tls: {tls},"));
    for (config, words) in [
        (port("tls: {certFile: a.crt, keyFile: b.key}"), "b.key: the key is not that of the cert"),
        (port("tls: {certFile: old.crt, keyFile: old.key}"), "expired at 2001-01-01T00:00:00"),
        (port("tls: {certFile: new.crt, keyFile: new.key}"), "not valid before 2099-01-01T"),
        (port("tls: {certFile: no.crt, keyFile: a.key}"), "listen.tls: certFile"),
        (port("tls: {certFile: empty, keyFile: a.key}"), "holds no certificate"),
        (port("tls: {certFile: a.crt, keyFile: empty}"), "listen.tls: keyFile"),
        (port("tls: {certFile: a.crt}"), "keyFile"),
        (
            port("tls: {certFile: itself.crt, keyFile: itself.key}"),
            "itself.crt: the certificate is that of an authority, which must not be shown",
        ),
        (
            port("tls: {certFile: behind.crt, keyFile: behind.key}"),
            "behind.crt: certificate 2 of it: the certificate expired at 2001-01-01",
        ),
        (variant("{certFile: itself.crt, keyFile: itself.key}"), "basicConstraints CA:FALSE"),
        (port("adminTls: {certFile: a.crt, keyFile: b.key}"), "listen.adminTls"),
        (
            port("tls: {certFile: a.crt, keyFile: a.key, clientCaFile: empty}"),
            "listen.tls: clientCaFile",
        ),
        (variant("{caFile: empty}"), "models[0].variants[0].tls: caFile"),
        (
            port("tls: {certFile: a.crt, keyFile: a.key, clientCaFile: old-ca.crt}"),
            "old-ca.crt: the certificate expired at 2001",
        ),
        (variant("{caFile: old-ca.crt}"), "old-ca.crt: the certificate expired at 2001"),
        (variant("{certFile: a.crt, keyFile: b.key}"), "the key is not that of the certificate"),
        (variant("{certFile: old.crt, keyFile: old.key}"), "old.crt: the certificate expired"),
        (variant("{certFile: new.crt, keyFile: new.key}"), "new.crt: the certificate is not valid"),
        (variant("{certFile: a.crt}"), "certFile and keyFile need each other"),
        (variant("{serverName: \"a b\"}"), "serverName"),
        (variant("{insecure: true}"), "insecure"),
    ] {
        let file = folder.path().join("router.yaml");
        std::fs::write(&file, &config).unwrap();
        let error = llmd_router::control::start(&file).unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[tokio::test]
async fn what_does_not_hold_now_is_not_taken_over_and_the_log_says_why() {
    let engine = engine(vec![Behaviour::ok()]);
    let (authority, ours) = (Authority::new(), Authority::new());
    let strict = server(&authority.pair("127.0.0.1", 2100), Some(&ours));
    let secure = Secure::before(&engine, strict).await;
    let own = "{caFile: ca.crt, certFile: own.crt, keyFile: own.key}";
    let port = "tls: {certFile: router.crt, keyFile: router.key, clientCaFile: clients.crt}";
    let config = with_tls(&secure.config(&engine, own), port);
    let process = Process::start_with(&config, "text", |folder| {
        authority.pair("router", 2100).write(folder, "router");
        ours.pair("router", 2100).write(folder, "own");
        std::fs::write(folder.join("ca.crt"), authority.0.pem()).unwrap();
        std::fs::write(folder.join("clients.crt"), authority.0.pem()).unwrap();
    });
    let line = process.line("listening");
    let data = address(&line, "data=");
    let client = authority.client(Some(&authority.pair("me", 2100)), &["http/1.1"]);
    let file = |name: &str| process.folder.path().join(name);
    let (old, new) = (authority.pair("router", 2001), authority.pair_from("router", 2099, 2100));
    let (other, old_own) = (authority.pair("router", 2100), ours.pair("router", 2001));
    let old_ca = Authority::until(2001).0.pem();
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let mut broken = authority.pair("router", 2100);
    broken.cert.push_str(damaged);
    let text = |name: &str, text: &str| vec![(name.to_owned(), text.to_owned())];
    let both = |name: &str, pair: &Pair| {
        let (cert, key) = (pair.cert.clone(), pair.key.clone());
        vec![(format!("{name}.key"), key), (format!("{name}.crt"), cert)]
    };
    for (files, words) in [
        (both("router", &old), "router.crt: the certificate expired at 2001-01-01T00:00:00.000Z"),
        (both("router", &new), "router.crt: the certificate is not valid before 2099-01-01T"),
        (both("router", &broken), "router.crt: certificate 2 of it is damaged"),
        (text("router.key", &other.key), "router.key: the key is not that of the certificate"),
        (text("clients.crt", ""), "clientCaFile: "),
        (text("clients.crt", &old_ca), "clients.crt: the certificate expired at 2001"),
        (text("ca.crt", ""), "ca.crt: holds no certificate"),
        (text("ca.crt", &old_ca), "ca.crt: the certificate expired at 2001"),
        (text("own.key", &other.key), "own.key: the key is not that of the certificate"),
        (both("own", &old_own), "own.crt: the certificate expired at 2001"),
    ] {
        let kept = |name: &String| std::fs::read_to_string(file(name)).unwrap();
        let before: Vec<_> = files.iter().map(|(name, _)| (name.clone(), kept(name))).collect();
        for (name, bad) in &files {
            std::fs::write(file(name), bad).unwrap();
        }
        let line = process.line(words);
        assert!(line.contains("the old certificates stay"), "{line}");
        let answer = ask_at(data, &client).await;
        assert!(answer.as_ref().is_ok_and(|(_, text)| text.contains("[DONE]")), "{answer:?}");
        for (name, good) in &before {
            std::fs::write(file(name), good).unwrap();
        }
        process.line("certificates taken over");
    }
}

#[tokio::test]
async fn what_is_refused_for_its_time_is_told_once_and_taken_when_that_has_come() {
    let engine = engine(vec![Behaviour::ok()]);
    let authority = Authority::new();
    let setup = secure(&engine, &authority, "");
    let mut params = CertificateParams::new(["router".to_owned()]).unwrap();
    params.not_before =
        std::time::SystemTime::now().checked_add(Duration::from_secs(4)).unwrap().into();
    params.not_after = date_time_ymd(2100, 1, 1);
    let key = KeyPair::generate().unwrap();
    let soon = params.signed_by(&key, &authority.0).unwrap();
    let first = shown(&setup, &authority).await;
    setup.replace("router.key", &key.serialize_pem());
    setup.replace("router.crt", &soon.pem());
    let told = |status: &serde_json::Value| {
        let problem = status["certificates"]["problems"][0].as_str();
        problem.is_some_and(|problem| problem.contains("not valid before"))
    };
    setup.until(told).await;
    assert_eq!(shown(&setup, &authority).await, first);
    setup.until(|status| status["certificates"]["problems"][0].is_null()).await;
    assert_ne!(shown(&setup, &authority).await, first);
}
