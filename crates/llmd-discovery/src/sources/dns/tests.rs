use super::*;
use crate::{Discovery, Snapshot, StaticSource};
use llmd_testkit::{NameServer, Says};
use std::time::Instant;
use tokio::sync::watch;

const OFTEN: Duration = Duration::from_millis(20);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn addresses(all: &[&str]) -> Says {
    Says::Addresses(all.iter().map(|text| ip(text)).collect(), 0)
}

fn asked(interval: Duration, resolver: Option<SocketAddr>) -> DnsName {
    let (name, variant) = ("chat.".to_owned(), Some("v".to_owned()));
    DnsName { name, port: 8000, variant, interval, resolver }
}

fn start(server: &NameServer) -> watch::Receiver<Snapshot> {
    let source = DnsSource::new(asked(OFTEN, Some(server.address)));
    Discovery::start(vec![Box::new(source)]).unwrap()
}

/// Waits until it holds; what was there then.
async fn until(
    snapshots: &mut watch::Receiver<Snapshot>,
    holds: impl FnMut(&Snapshot) -> bool,
) -> Snapshot {
    let waiting = tokio::time::timeout(Duration::from_secs(20), snapshots.wait_for(holds));
    waiting.await.unwrap().unwrap().clone()
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect()
}

#[tokio::test]
async fn each_address_is_an_endpoint_that_has_its_name() {
    let server = NameServer::start().unwrap();
    server.say("chat.", &addresses(&["10.0.0.2", "fd00::1", "10.0.0.1"]));
    let mut snapshots = start(&server);
    let first = until(&mut snapshots, |snapshot| !snapshot.pending).await;
    assert_eq!(names(&first), ["10.0.0.1:8000", "10.0.0.2:8000", "[fd00::1]:8000"]);
    let last = &first.endpoints[2];
    assert_eq!((last.address.as_str(), last.port), ("fd00::1", 8000));
    assert_eq!((last.variant.as_deref(), last.state), (Some("v"), State::Ready));
    // One leaves, one comes, and one stays what it was.
    server.say("chat.", &addresses(&["10.0.0.3", "10.0.0.2"]));
    let next = until(&mut snapshots, |snapshot| snapshot.endpoints.len() == 2).await;
    assert_eq!(names(&next), ["10.0.0.2:8000", "10.0.0.3:8000"]);
    assert_eq!(next.endpoints[0], first.endpoints[1]);
    assert!(next.problems.is_empty());
}

#[tokio::test]
async fn no_name_and_no_address_are_answers_and_a_failure_is_none() {
    let server = NameServer::start().unwrap();
    let there = addresses(&["10.0.0.1"]);
    server.say("chat.", &there);
    let mut snapshots = start(&server);
    for none in [Says::NoSuchName, addresses(&[])] {
        until(&mut snapshots, |snapshot| snapshot.endpoints.len() == 1).await;
        server.say("chat.", &none);
        let empty = until(&mut snapshots, |snapshot| snapshot.endpoints.is_empty()).await;
        assert!(empty.problems.is_empty(), "{empty:?}");
        server.say("chat.", &there);
    }
    until(&mut snapshots, |snapshot| snapshot.endpoints.len() == 1).await;
    for (failure, why) in [
        (Says::Code(2), "the name server says Server Failure"),
        (Says::Silence, "no answer within 5 s"),
    ] {
        server.say("chat.", &failure);
        let kept = until(&mut snapshots, |snapshot| !snapshot.problems.is_empty()).await;
        assert_eq!(names(&kept), ["10.0.0.1:8000"]);
        let told = ["A", "AAAA"]
            .map(|kind| format!("dns chat.: {kind}: {why}; its endpoints stay as they were"));
        assert_eq!(kept.problems, told);
        server.say("chat.", &there);
        let mended = until(&mut snapshots, |snapshot| snapshot.problems.is_empty()).await;
        assert_eq!(names(&mended), ["10.0.0.1:8000"]);
    }
}

#[tokio::test]
async fn a_failure_of_one_kind_of_address_leaves_the_other_alone() {
    let server = NameServer::start().unwrap();
    server.say("chat.", &addresses(&["10.0.0.1", "fd00::1"]));
    let mut snapshots = start(&server);
    until(&mut snapshots, |snapshot| snapshot.endpoints.len() == 2).await;
    server.say_of_v6("chat.", &Says::Code(2));
    server.say_of_v4("chat.", &addresses(&["10.0.0.2"]));
    let next = until(&mut snapshots, |snapshot| {
        names(snapshot) == ["10.0.0.2:8000", "[fd00::1]:8000"] && snapshot.problems.len() == 1
    });
    assert!(next.await.problems[0].starts_with("dns chat.: AAAA: "));
}

#[tokio::test]
async fn a_name_server_that_hangs_holds_up_nothing() {
    let server = NameServer::start().unwrap();
    server.say("chat.", &Says::Silence);
    let begun = Instant::now();
    let known = endpoint(ip("10.0.0.9"), &asked(OFTEN, None));
    let mut snapshots = Discovery::start(vec![
        Box::new(DnsSource::new(asked(OFTEN, Some(server.address)))),
        Box::new(StaticSource::new(vec![known])),
    ])
    .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    let first = snapshots.borrow_and_update().clone();
    assert_eq!((names(&first), first.pending), (vec!["10.0.0.9:8000"], true));
    assert_eq!(first.problems, ["dns chat.: was not answered yet"]);
    // A failure is no answer: what was known before these sources may still be there.
    let failed = until(&mut snapshots, |snapshot| snapshot.problems.len() == 2).await;
    assert!(failed.pending);
    server.say("chat.", &Says::NoSuchName);
    until(&mut snapshots, |snapshot| !snapshot.pending).await;
}

#[tokio::test]
async fn nobody_is_asked_once_nobody_listens() {
    let server = NameServer::start().unwrap();
    let mut snapshots = start(&server);
    until(&mut snapshots, |snapshot| !snapshot.pending).await;
    drop(snapshots);
    let end = Instant::now() + Duration::from_secs(10);
    // A look that had begun may still come.
    loop {
        let before = server.asked().len();
        tokio::time::sleep(OFTEN * 10).await;
        if server.asked().len() == before {
            return;
        }
        assert!(Instant::now() < end, "it goes on");
    }
}

#[test]
fn records_are_looked_up_again_when_their_time_ends_or_sooner() {
    let seconds = Duration::from_secs;
    let mut known = Known::default();
    for (interval, ttl, wait) in [
        (seconds(5), seconds(3), seconds(3)),
        (seconds(5), seconds(30), seconds(5)),
        (seconds(5), seconds(0), SHORTEST),
        (OFTEN, seconds(0), OFTEN),
    ] {
        let v4 = Answer::Addresses { found: vec![ip("10.0.0.1")], ttl };
        let look = Look { v4, v6: Answer::Nothing };
        assert_eq!(known.take(look, &asked(interval, None)), wait, "{interval:?} {ttl:?}");
    }
    let failed = || Answer::Failed("x".into());
    let look = Look { v4: failed(), v6: failed() };
    assert_eq!(known.take(look, &asked(seconds(3600), None)), AGAIN);
}
