//! All that can become of a request, mixed: engines that fail in turn and clients that leave.
//!
//! Used where accounts are looked at after very many requests: by a test of the router, and by
//! the `soak` program.

use crate::behaviour::Behaviour;
use crate::client::{Client, Reply};
use crate::engine::FakeEngine;
use crate::session::Session;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

const CHAT: &str = "/v1/chat/completions";

/// The limits that a router needs, lest an engine that hangs takes long.
pub const LIMITS: &str = "limits: {connectMs: 500, firstByteMs: 300, idleMs: 200, totalMs: 5000}";

/// Engines that go round through all outcomes, two thirds of them good, each from another begin.
pub fn engines(count: usize) -> io::Result<Vec<FakeEngine>> {
    let start = |at: usize| {
        let mut script = outcomes();
        let length = script.len();
        script.rotate_left(at * 7 % length);
        let engine = FakeEngine::start(script)?;
        engine.go_round();
        Ok(engine)
    };
    (0..count).map(start).collect()
}

fn outcomes() -> Vec<Behaviour> {
    let (good, soon) = (Behaviour::ok(), Duration::from_millis(1));
    let bad = [
        Behaviour::Status(500),
        Behaviour::Usage(5, [40, 16, 5]),
        Behaviour::CloseBeforeHead,
        Behaviour::Status(503),
        Behaviour::DieAfter(2),
        Behaviour::Ok(20, soon),
        Behaviour::DieAfter(0),
        Behaviour::SlowFirstByte(soon * 20),
        Behaviour::HalfClose(1),
        Behaviour::Hang,
        Behaviour::Status(429),
        Behaviour::Ok(20, soon),
        Behaviour::CloseOnReuse,
        Behaviour::Status(400),
        Behaviour::WrongContentType,
        Behaviour::StallAfter(1),
    ];
    bad.into_iter().flat_map(|bad| [good.clone(), bad, good.clone()]).collect()
}

/// Makes the request of this number: plain or streamed, for a model or for none, read to its
/// end or left in some phase. The answer of one that was not left; an error is a lost request.
pub async fn ask(
    router: SocketAddr,
    session: &mut Session,
    number: u64,
) -> io::Result<Option<Reply>> {
    let soon = Duration::from_millis(number % 7);
    let answered = match number % 25 {
        0..9 => session.post(CHAT, &body("chat", false, number)).await,
        9 => session.post(CHAT, &body("assistant", false, number)).await,
        10..18 => session.post(CHAT, &body("chat", true, number)).await,
        18 => session.post(CHAT, &body("nobody", true, number)).await,
        19 => session.post(CHAT, "{\"model\":").await,
        phase => {
            leave(router, phase, soon, number).await?;
            return Ok(None);
        }
    };
    answered.map(Some)
}

/// Asks and leaves: in the request's body, soon after it, or when the answer has begun.
async fn leave(router: SocketAddr, phase: u64, soon: Duration, number: u64) -> io::Result<()> {
    if phase == 20 {
        let begun = format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{{");
        let _client = Client::send(router, begun.as_bytes()).await?;
        tokio::time::sleep(soon).await;
        return Ok(());
    }
    let body = body("chat", phase != 21, number);
    let mut client = Client::post(router, CHAT, &[], body.as_bytes()).await?;
    if phase < 23 {
        tokio::time::sleep(soon).await;
        return Ok(());
    }
    // It may have ended before, and without that.
    let _ = client.wait_for("choices").await;
    Ok(())
}

fn body(model: &str, stream: bool, number: u64) -> String {
    let prompt = format!("{}: {}", number % 64, "and so on ".repeat(60));
    format!(
        "{{\"model\":\"{model}\",\"stream\":{stream},\"max_tokens\":8,\
         \"messages\":[{{\"role\":\"user\",\"content\":\"{prompt}\"}}]}}"
    )
}

/// What is wrong with an answer that was read to its end, whatever the engine did.
pub fn complaint(reply: &Reply) -> Option<String> {
    let text = reply.text();
    let events = reply.header("content-type") == Some("text/event-stream");
    let told = text.contains("event: error\ndata: {") || text.contains("[DONE]");
    let wrong = match (reply.whole, events, told) {
        (false, ..) => "not whole",
        (_, true, false) => "a stream that ended in silence",
        _ => return None,
    };
    Some(format!("{wrong}: {} {text}", reply.status))
}
