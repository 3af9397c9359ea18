//! The way out at the moment when the listener closes: nobody who came before it is lost.

use crate::process::{Process, address};
use crate::support::{CHAT, Setup, body, engine, one_model};
use llmd_router::control::Command;
use llmd_testkit::Client;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn the_way_out_serves_for_as_long_as_others_may_take_to_see_it() {
    for (limit, served) in [("quietMs: 2000", true), ("quietMs: 200", false)] {
        let engine = engine(vec![]);
        let config = one_model(&[&engine]);
        let config = config.replace("drainMs: 5000", &format!("drainMs: 5000, {limit}"));
        let mut setup = Setup::start(&config);
        setup.tell(Command::Drain);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let late = Client::post(setup.data, CHAT, &[], body("chat", false).as_bytes()).await;
        assert_eq!(late.is_ok(), served, "{limit}");
        if let Ok(late) = late {
            let reply = late.reply().await.unwrap();
            assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        }
        assert_eq!(setup.ended().await, 0);
    }
}

#[tokio::test]
async fn who_waits_to_be_let_in_when_the_listener_closes_is_served() {
    let engine = engine(vec![]);
    let config = one_model(&[&engine]).replace("drainMs: 5000", "drainMs: 5000, quietMs: 0");
    let mut process = Process::start(&config, "text");
    let data = address(&process.line("listening"), "data=");
    let body = body("chat", false);
    let length = body.len();
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    let request = (head + &body).into_bytes();
    // It stands still, so that all of this waits for it at once.
    process.signal("-STOP");
    let mut clients = Vec::new();
    for number in 0..100 {
        let mut client = TcpStream::connect(data).await.unwrap();
        // Some have sent all by then, some a part of a head, some nothing.
        let sent = [request.len(), 20, 0][number % 3];
        client.write_all(&request[..sent]).await.unwrap();
        clients.push((client, sent));
    }
    process.signal("-TERM");
    process.signal("-CONT");
    process.line("draining");
    tokio::time::sleep(Duration::from_millis(300)).await;
    for (client, sent) in &mut clients {
        client.write_all(&request[*sent..]).await.unwrap();
    }
    for (mut client, sent) in clients {
        let mut answer = Vec::new();
        let read = client.read_to_end(&mut answer).await;
        let served = read.is_ok() && answer.starts_with(b"HTTP/1.1 200 ");
        assert!(served, "{sent} bytes sent: {:?}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(process.ended().await, Some(0));
}
