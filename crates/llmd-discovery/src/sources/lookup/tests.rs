use super::*;
use hickory_resolver::system_conf::parse_resolv_conf;
use llmd_testkit::{NameServer, Says};

const POD: &str = "nameserver 127.0.0.1\nsearch llm.svc.cluster.local svc.cluster.local\n\
                   options ndots:5 timeout:1 attempts:1\n";

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn names(name: &str, resolv_conf: &str) -> Vec<String> {
    let (config, options) = parse_resolv_conf(resolv_conf).unwrap();
    let names = candidates(name, &config, options.ndots).unwrap();
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn a_short_name_stands_for_those_that_the_system_says() {
    let listed = ["chat.llm.llm.svc.cluster.local.", "chat.llm.svc.cluster.local."];
    assert_eq!(names("chat.llm", POD), [listed[0], listed[1], "chat.llm."]);
    let few = POD.replace("ndots:5", "ndots:1");
    assert_eq!(names("chat.llm", &few), ["chat.llm.", listed[0], listed[1]]);
    assert_eq!(names("chat.llm.", POD), ["chat.llm."]);
    let domain = "nameserver 127.0.0.1\ndomain example.org\n";
    assert_eq!(names("chat", domain), ["chat.example.org.", "chat."]);
}

/// With a resolv.conf like that of a pod, and this server in it.
async fn look_in_pod(server: &NameServer, name: &str) -> Result<Look, String> {
    let (mut config, mut options) = parse_resolv_conf(POD).unwrap();
    let (given, ours) = settings(Some(server.address)).unwrap();
    config.name_servers = given.name_servers;
    options.cache_size = ours.cache_size;
    look_at(name, config, options).await
}

#[tokio::test]
async fn the_first_name_that_there_is_counts_and_a_failure_is_no_answer() {
    let server = NameServer::start().unwrap();
    let one = |ip: IpAddr| Says::Addresses(vec![ip], 30);
    server.say("chat.llm.svc.cluster.local.", &one(ip("10.0.0.1")));
    server.say("chat.llm.", &one(ip("10.9.9.9")));
    let found = |address: &str| Answer::Addresses {
        found: vec![ip(address)],
        ttl: Duration::from_secs(30),
    };
    let there = Look { v4: found("10.0.0.1"), v6: Answer::Nothing };
    assert_eq!(look_in_pod(&server, "chat.llm").await, Ok(there));
    // A name without addresses is there all the same.
    server.say("chat.llm.svc.cluster.local.", &Says::Addresses(vec![], 0));
    let nothing = Look { v4: Answer::Nothing, v6: Answer::Nothing };
    assert_eq!(look_in_pod(&server, "chat.llm").await, Ok(nothing.clone()));
    // Nobody looks further where one of the names is not known about.
    server.say("chat.llm.svc.cluster.local.", &Says::Code(2));
    let failed = look_in_pod(&server, "chat.llm").await.unwrap();
    assert!(matches!((&failed.v4, &failed.v6), (Answer::Failed(_), Answer::Failed(_))));
    // Nor where one kind of address is not known about and the other says that there is no name.
    server.say_of_v6("chat.llm.svc.cluster.local.", &Says::NoSuchName);
    assert!(look_in_pod(&server, "chat.llm").await.unwrap_err().contains("says"));
    assert_eq!(look_in_pod(&server, "none.llm").await, Ok(nothing));
}

#[tokio::test]
async fn what_is_too_long_for_udp_comes_over_tcp() {
    let server = NameServer::start().unwrap();
    let many: Vec<IpAddr> = (0..200).map(|last| ip(&format!("10.0.1.{last}"))).collect();
    server.say("many.", &Says::Addresses(many.clone(), 7));
    let look = look("many.", Some(server.address)).await;
    assert_eq!(look.v4, Answer::Addresses { found: many, ttl: Duration::from_secs(7) });
    assert!(server.asked().contains(&"tcp A many.".to_owned()), "{:?}", server.asked());
}

#[tokio::test]
async fn aliases_are_followed_and_addresses_of_nobody_are_left_out() {
    let server = NameServer::start().unwrap();
    server.say("chat.", &Says::Alias("real.".into()));
    let addresses = ["10.0.0.2", "0.0.0.0", "224.0.0.1", "10.0.0.1", "10.0.0.2", "::", "fd00::1"];
    server.say("real.", &Says::Addresses(addresses.map(ip).to_vec(), 9));
    let look = look("chat.", Some(server.address)).await;
    let ttl = Duration::from_secs(9);
    let v4 = vec![ip("10.0.0.1"), ip("10.0.0.2")];
    assert_eq!(look.v4, Answer::Addresses { found: v4, ttl });
    assert_eq!(look.v6, Answer::Addresses { found: vec![ip("fd00::1")], ttl });
}

#[tokio::test]
async fn each_failure_is_told_and_none_lasts_for_ever() {
    let server = NameServer::start().unwrap();
    let gone = {
        let gone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        gone.local_addr().unwrap()
    };
    for (name, says) in [
        ("servfail.", Says::Code(2)),
        ("refused.", Says::Code(5)),
        ("silent.", Says::Silence),
        ("junk.", Says::Junk),
    ] {
        server.say(name, &says);
    }
    let begun = std::time::Instant::now();
    let looks = tokio::join!(
        look("servfail.", Some(server.address)),
        look("refused.", Some(server.address)),
        look("silent.", Some(server.address)),
        look("junk.", Some(server.address)),
        look("nobody.", Some(gone)),
    );
    assert!(begun.elapsed() < LOOK + Duration::from_secs(2));
    let late = "no answer within 5 s";
    for (look, why) in [
        (looks.0, "the name server says Server Failure"),
        (looks.1, "the name server says Query Refused"),
        (looks.2, late),
        (looks.3, late),
        (looks.4, late),
    ] {
        let failed = Answer::Failed(why.into());
        assert_eq!(look, Look { v4: failed.clone(), v6: failed });
    }
}
