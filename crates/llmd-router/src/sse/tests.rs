use super::*;
use crate::api;

const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\
                     \"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";

fn events(name: &str) -> Events {
    Events::new(api::named(name).unwrap(), false)
}

/// What is told of a stream whose pieces have these lengths.
fn read(name: &str, stream: &[u8], mut lengths: impl FnMut() -> usize) -> (u32, Usage, bool) {
    let mut events = events(name);
    let (mut count, mut out, mut rest) = (0, Vec::new(), stream);
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(lengths().clamp(1, rest.len()));
        rest = behind;
        let passed = events.push(Bytes::copy_from_slice(piece));
        count += passed.count;
        out.extend_from_slice(&passed.bytes);
    }
    let left = events.rest();
    out.extend_from_slice(&left.bytes);
    assert!(out == stream, "other bytes came out: {:?}", String::from_utf8_lossy(&out));
    (count + left.count, events.usage, events.done)
}

const TOLD: Usage =
    Usage { prompt_tokens: Some(7), cached_tokens: Some(4), completion_tokens: Some(2) };
const SILENT: Usage = Usage { prompt_tokens: None, cached_tokens: None, completion_tokens: None };

/// Streams, with their tokens, usage and whether they end as they should.
fn streams() -> Vec<(&'static str, String, (u32, Usage, bool))> {
    let token = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
    let done = "data: [DONE]\n\n";
    let responses = "event: response.created\ndata: {\"type\":\"response.created\"}\n\n\
        event: response.output_text.delta\ndata: {\"delta\":\"response.completed\"}\n\n\
        event: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":7,\
        \"input_tokens_details\":{\"cached_tokens\":4},\"output_tokens\":2}}}\n\n";
    let messages = "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":3,\
        \"cache_read_input_tokens\":4,\"output_tokens\":0}}}\n\n\
        event: ping\ndata: {}\n\nevent: content_block_delta\ndata: {\"delta\":{}}\n\n\
        event: message_delta\ndata: {\"usage\":{\"output_tokens\":2}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let long =
        |end: &str| format!("{token}data: {}{end}{end}{token}{done}", "x".repeat(2 * HELD_MAX));
    vec![
        ("chat", format!("{token}{token}{USAGE}{done}"), (2, TOLD, true)),
        ("chat", format!("{token}{USAGE}{done}").replace('\n', "\r\n"), (1, TOLD, true)),
        ("chat", format!("{token}{USAGE}{done}").replace('\n', "\r"), (1, TOLD, true)),
        ("chat", format!("\u{feff}{token}\n\n\n: note\n\n{token}"), (2, SILENT, false)),
        ("chat", "data:  [DONE] \r\n\r\n".into(), (0, SILENT, true)),
        ("chat", "data:[DONE]".into(), (0, SILENT, true)),
        ("chat", "data: {\"text\":\"data: [DONE]\"}\n\n".into(), (1, SILENT, false)),
        ("chat", "id: 7\nretry: 10\nevent: x\n\n:\n\ndata\n\n".into(), (1, SILENT, false)),
        // An object over several lines of data is one event.
        (
            "chat",
            format!("data: {{\"choices\":[],\ndata:\"usage\":\ndata: {}", &USAGE[28..]),
            (0, TOLD, false),
        ),
        ("chat", USAGE.trim_end().into(), (0, TOLD, false)),
        ("chat", long("\n"), (3, SILENT, true)),
        ("chat", long("\r\n"), (3, SILENT, true)),
        ("responses", responses.into(), (1, TOLD, true)),
        ("responses", responses.replace("event: response.completed", ":"), (2, TOLD, false)),
        ("messages", messages.into(), (1, TOLD, true)),
        ("messages", "event: error\ndata: {}\n\n".into(), (0, SILENT, true)),
        (
            "transcriptions",
            "data: {\"type\":\"transcript.text.delta\",\"delta\":\
             \"\\\"transcript.text.done\\\"\"}\n\n\
             data: {\"type\": \"transcript.text.done\"}\n\n"
                .into(),
            (2, SILENT, true),
        ),
    ]
}

#[test]
fn streams_are_understood_however_they_are_cut() {
    let mut rng = llmd_sched::Rng::seeded(11);
    for (api, stream, expected) in streams() {
        let shown = &stream[..stream.len().min(200)];
        let whole = read(api, stream.as_bytes(), || usize::MAX);
        assert_eq!(whole, expected, "{api} {shown:?}");
        let rounds = if stream.len() > HELD_MAX { 20 } else { 300 };
        let longest = if stream.len() > HELD_MAX { HELD_MAX as u64 } else { 40 };
        for _ in 0..rounds {
            let cut = || (rng.next_u64() % longest) as usize;
            assert_eq!(read(api, stream.as_bytes(), cut), expected, "{api} {shown:?}");
        }
        if stream.len() < HELD_MAX {
            assert_eq!(read(api, stream.as_bytes(), || 1), expected, "{api} {shown:?}");
        }
    }
}

#[test]
fn an_event_around_the_limit_is_read_alike_however_it_is_cut() {
    for length in HELD_MAX - 2..HELD_MAX + 6 {
        let tail = USAGE.trim_start_matches("data: {");
        let pad = length - "data: {\"pad\":\"\",".len() - tail.len();
        let event = format!("data: {{\"pad\":\"{}\",{tail}", "x".repeat(pad));
        assert_eq!(event.len(), length);
        let whole = read("chat", event.as_bytes(), || usize::MAX);
        for first in [length - 1, length - 2, length - 3, HELD_MAX, 5] {
            let mut lengths = [first, 1, 1].into_iter();
            let cut = read("chat", event.as_bytes(), || lengths.next().unwrap_or(1 << 16));
            assert_eq!(cut, whole, "{length} cut at {first}");
        }
    }
}

#[test]
fn an_unfinished_event_is_held_back() {
    let mut events = events("chat");
    assert_eq!(events.push(Bytes::from("data: {\"a\"")).bytes, "");
    assert_eq!(events.push(Bytes::from(":1}\n\ndata: x")).bytes, "data: {\"a\":1}\n\n");
    assert_eq!(events.rest().bytes, "data: x");
    assert!(!events.done);
}

#[test]
fn an_endless_line_is_not_held_for_ever() {
    let mut events = events("chat");
    let piece = Bytes::from(vec![b'x'; HELD_MAX + 1]);
    assert_eq!(events.push(piece.clone()).bytes, piece);
    assert_eq!(events.push(Bytes::from("more")).bytes, "more");
}

#[test]
fn an_error_event_stands_apart_wherever_a_stream_is_cut() {
    let long = |end: &str| Bytes::from(format!("data: {}{end}", "x".repeat(HELD_MAX)));
    for (piece, before) in [
        (Bytes::from("data: {}\n\n"), ""),
        (Bytes::from("data: {}\n\ndata: {"), ""),
        (long(""), "\n\n"),
        (long("\n"), "\n\n"),
        (long("\r\n"), "\n\n"),
        (long("\n\n"), ""),
        (long("\n\ndata: {"), ""),
    ] {
        let mut events = events("chat");
        events.push(piece.clone());
        assert_eq!(events.cut(), before, "behind {:?}", &piece[piece.len() - 9..]);
    }
}

#[test]
fn whole_events_are_not_copied() {
    let mut events = events("chat");
    let piece = Bytes::from("data: {}\n\ndata: {}\n\n");
    assert_eq!(events.push(piece.clone()).bytes.as_ptr(), piece.as_ptr());
}

#[test]
fn each_api_ends_its_streams_in_its_own_words() {
    let all = [
        ("responses", "response.completed"),
        ("responses", "response.failed"),
        ("responses", "response.incomplete"),
        ("responses", "error"),
        ("messages", "message_stop"),
        ("messages", "error"),
        ("transcriptions", "transcript.text.done"),
        ("translations", "transcript.text.done"),
        ("speech", "speech.audio.done"),
        ("images", "image_generation.completed"),
        ("image-edits", "image_edit.completed"),
    ];
    for api in api::APIS {
        for (_, end) in all {
            let ends = all.contains(&(api.name, end));
            for event in [
                format!("event: {end}\ndata: {{}}\n\n"),
                format!("data: {{\"type\":\"{end}\"}}\n\n"),
                format!("event: {end}\ndata: {{\"type\":\"{end}\"}}\n\n"),
            ] {
                let (_, _, done) = read(api.name, event.as_bytes(), || 9);
                assert_eq!(done, ends, "{} {event}", api.name);
            }
            let inside = format!("event: other\ndata: {{\"type\":\"{end}\"}}\n\n");
            assert!(!read(api.name, inside.as_bytes(), || 9).2, "{} {inside}", api.name);
        }
        assert!(read(api.name, b"data: [DONE]\n\n", || 9).2, "{}", api.name);
        assert!(!read(api.name, b"data: {}\n\n", || 9).2, "{}", api.name);
    }
}

#[test]
fn a_long_event_ends_wherever_its_end_is_cut() {
    for end in ["\n\n", "\r\n\r\n", "\r\r"] {
        let long = format!("data: {}", "x".repeat(HELD_MAX + 10));
        let stream = format!("{long}{end}data: [DONE]\n\n");
        for cut in 0..=end.len() {
            let mut lengths = [long.len() + cut].into_iter().chain(std::iter::repeat(1));
            let (_, _, done) = read("chat", stream.as_bytes(), || lengths.next().unwrap());
            assert!(done, "{end:?} cut at {cut}");
        }
    }
}
