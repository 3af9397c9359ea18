//! Very many requests of all kinds through the router's program: nothing may be left of them.
//!
//! `make soak` runs it. It prints memory, descriptors and threads as it goes, and ends with 1 when
//! a request was lost, a gauge is not 0 at rest, or memory has grown.

use llmd_testkit::{Client, Session, mixture};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const CLIENTS: u64 = 64;
const ENGINES: usize = 4;
/// Lines that are printed on the way.
const LINES: u64 = 20;
/// What memory may grow by, from a tenth of the requests to the end: the allocator's, no request's.
const GROWTH_KIB: u64 = 8 << 10;
/// For all that runs to end, and for idle connections to be swept.
const REST: Duration = Duration::from_secs(8);

type Failure = Box<dyn Error + Send + Sync>;

/// The router's program; it ends with this.
struct Router {
    child: Child,
    data: SocketAddr,
    admin: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Router {
    fn start(program: &str, endpoints: &str) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("router.yaml");
        let config = format!(
            "version: 1\nlisten: {{data: \"127.0.0.1:0\", admin: \"127.0.0.1:0\"}}\n{}\nmodels:\n\
             - name: chat\n  aliases: [assistant]\n  \
             sources: [{{kind: static, endpoints: [{endpoints}]}}]\n",
            mixture::LIMITS
        );
        std::fs::write(&file, config)?;
        let mut child = Command::new(program)
            .arg("--config")
            .arg(&file)
            .stderr(Stdio::piped())
            .env("LLMD_LOG", "info")
            .spawn()?;
        let mut log = BufReader::new(child.stderr.take().ok_or("no log")?);
        let mut line = String::new();
        while !line.contains("listening") {
            line.clear();
            if log.read_line(&mut line)? == 0 {
                return Err("the router did not start".into());
            }
        }
        let address = |word| {
            let text = line.split(word).nth(1).and_then(|rest| rest.split_whitespace().next());
            text.ok_or("no address")?.parse::<SocketAddr>().map_err(Failure::from)
        };
        let (data, admin) = (address("data=")?, address("admin=")?);
        // A router that panics is a failure, whatever it does afterwards.
        std::thread::spawn(move || {
            let panicked = log.lines().map_while(Result::ok).find(|line| line.contains("panicked"));
            if let Some(line) = panicked {
                let _ = writeln!(std::io::stderr(), "{line}");
                std::process::exit(1);
            }
        });
        Ok(Self { child, data, admin, _folder: folder })
    }

    fn count(&self, name: &str) -> Result<usize, Failure> {
        Ok(std::fs::read_dir(format!("/proc/{}/{name}", self.child.id()))?.count())
    }

    fn rss_kib(&self) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?;
        Ok(number.parse()?)
    }

    /// The lines of gauges that are not 0.
    async fn busy(&self) -> Result<Vec<String>, Failure> {
        let page = Client::ask(self.admin, "GET", "/metrics").await?.text();
        let gauge = |line: &&str| {
            line.starts_with("llmd_router_open_requests")
                || line.starts_with("llmd_router_inflight_")
        };
        let busy = page.lines().filter(gauge).filter(|line| !line.ends_with(" 0"));
        Ok(busy.map(str::to_owned).collect())
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

async fn client(router: SocketAddr, next: Arc<AtomicU64>, most: u64) -> Result<(), Failure> {
    let mut session = Session::new(router);
    loop {
        let number = next.fetch_add(1, SeqCst);
        if number >= most {
            return Ok(());
        }
        let answer = mixture::ask(router, &mut session, number).await;
        let reply = answer.map_err(|error| format!("request {number} was lost: {error}"))?;
        if let Some(complaint) = reply.as_ref().and_then(mixture::complaint) {
            return Err(format!("request {number}: {complaint}").into());
        }
    }
}

async fn until(router: SocketAddr, next: &Arc<AtomicU64>, most: u64) -> Result<(), Failure> {
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(client(router, Arc::clone(next), most));
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    next.store(most, SeqCst);
    Ok(())
}

async fn soak(program: &str, requests: u64) -> Result<(), Failure> {
    let engines = mixture::engines(ENGINES)?;
    let endpoints = engines.iter().enumerate().map(|(at, engine)| {
        format!("{{name: e{at}, address: 127.0.0.1, port: {}}}", engine.address.port())
    });
    let router = Router::start(program, &endpoints.collect::<Vec<_>>().join(", "))?;
    let (next, begun, mut first) = (Arc::new(AtomicU64::new(0)), Instant::now(), 0);
    for line in 1..=LINES {
        let most = requests * line / LINES;
        until(router.data, &next, most).await?;
        let rss = router.rss_kib()?;
        if line <= LINES / 10 {
            first = rss;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let (rate, descriptors) = (most as f64 / seconds, router.count("fd")?);
        let threads = router.count("task")?;
        say(&format!(
            "{most:>10} requests {seconds:>8.0} s {rate:>7.0}/s  RSS {rss:>7} KiB  \
             {descriptors:>4} descriptors  {threads:>3} threads"
        ));
    }
    let end = Instant::now() + REST;
    while !router.busy().await?.is_empty() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep_until(end.into()).await;
    let (busy, rss, descriptors) = (router.busy().await?, router.rss_kib()?, router.count("fd")?);
    say(&format!("at rest: RSS {rss} KiB, {descriptors} descriptors"));
    if !busy.is_empty() {
        return Err(format!("gauges are not 0 at rest: {busy:?}").into());
    }
    if rss > first + GROWTH_KIB {
        return Err(format!("memory grew from {first} to {rss} KiB").into());
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(program), Some(requests)) = (arguments.next(), arguments.next()) else {
        return Err("usage: soak ROUTER REQUESTS".into());
    };
    soak(&program, requests.parse()?).await
}
