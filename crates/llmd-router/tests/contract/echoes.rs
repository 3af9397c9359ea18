//! What clients wrote and are told again: its begin, however long it is.

use crate::support::{CHAT, KEY, Setup, engine, one_model};
use llmd_testkit::{Behaviour, Client, Reply};
use std::net::SocketAddr;

async fn post(port: SocketAddr, path: &str, header: &str, body: &str) -> Reply {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\
         {header}\r\n\r\n{body}"
    );
    Client::send(port, head.as_bytes()).await.unwrap().reply().await.unwrap()
}

#[tokio::test]
async fn what_others_wrote_is_told_again_in_short() {
    let engine = engine(vec![Behaviour::ok()]);
    let setup = Setup::start(&one_model(&[&engine]));
    let (data, admin) = (setup.data, setup.admin);
    let long = "x".repeat(50_000);
    let member = |name: &str| format!("\"{name}\":\"{long}\"");
    let (json, key) = ("content-type: application/json", format!("authorization: Bearer {KEY}"));
    let form = "content-type: multipart/form-data; boundary=B";
    let name = &long[..7_000];
    let part = format!("--B\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n1\r\n");
    let previous = format!("{{\"model\":\"chat\",{}}}", member("previous_response_id"));
    for (port, path, header, body) in [
        (data, CHAT, json, format!("{{{}}}", member("model"))),
        (data, CHAT, json, format!("{{\"{long}\":1,\"{long}\":1}}")),
        (data, "/v1/responses", json, previous),
        (data, "/v1/audio/transcriptions", form, format!("{part}{part}--B--")),
        (data, &format!("/{long}"), json, String::new()),
        (data, &format!("/v1/models/{long}"), json, String::new()),
        (admin, &format!("/{long}"), json, String::new()),
        (admin, "/probe", &key, format!("{{{},\"endpoint\":\"e0\"}}", member("model"))),
        (admin, "/probe", &key, format!("{{\"model\":\"chat\",{}}}", member("endpoint"))),
        (admin, "/probe", &key, format!("{{\"{long}\":1}}")),
    ] {
        let reply = post(port, path, header, &body).await;
        let at = &path[..path.len().min(30)];
        assert!((400..500).contains(&reply.status), "{at} {}", reply.status);
        let text = reply.text();
        assert!(text.contains("xx") && text.contains('…') && text.len() < 500, "{at} {text}");
    }
    let list = Client::ask(data, "GET", &format!("/v1/models/{long}")).await.unwrap();
    let method = Client::ask(data, &long, CHAT).await.unwrap();
    assert_eq!((list.status, method.status), (404, 405));
    assert!(list.text().len() < 500 && method.text().len() < 500, "{}", method.text());
}
