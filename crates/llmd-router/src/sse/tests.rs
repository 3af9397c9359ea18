use super::*;

const STREAM: &str = ": hello\n\ndata: {\"choices\":[{\"text\":\"a\"}]}\n\n\
    event: x\r\ndata: {\"b\":1}\r\n\r\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\
    \"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n";

#[test]
fn a_stream_cut_at_any_byte_passes_unchanged_and_counts_the_same() {
    for cut in 0..STREAM.len() {
        let mut events = Events::default();
        let first = events.push(Bytes::from(&STREAM[..cut]));
        let second = events.push(Bytes::from(&STREAM[cut..]));
        let passed = [first.bytes, second.bytes].concat();
        assert_eq!(String::from_utf8(passed).unwrap(), STREAM, "cut at {cut}");
        assert_eq!(first.count + second.count, 3, "cut at {cut}");
        assert!(events.done);
        assert_eq!(events.usage.prompt_tokens, Some(7));
        assert_eq!(events.usage.cached_tokens, Some(4));
        assert_eq!(events.usage.completion_tokens, Some(2));
    }
}

#[test]
fn an_unfinished_event_is_held_back() {
    let mut events = Events::default();
    assert_eq!(events.push(Bytes::from("data: {\"a\"")).bytes, "");
    assert_eq!(events.push(Bytes::from(":1}\n\ndata: x")).bytes, "data: {\"a\":1}\n\n");
    assert_eq!(events.rest().bytes, "data: x");
    assert!(!events.done);
}

#[test]
fn an_endless_line_is_not_held_for_ever() {
    let mut events = Events::default();
    let piece = Bytes::from(vec![b'x'; HELD_MAX + 1]);
    assert_eq!(events.push(piece.clone()).bytes, piece);
}

#[test]
fn done_inside_a_text_is_no_end() {
    let mut events = Events::default();
    events.push(Bytes::from("data: {\"text\":\"data: [DONE]\"}\n\n"));
    assert!(!events.done);
}

#[test]
fn a_usage_of_null_or_of_another_shape_is_no_usage() {
    assert_eq!(usage_of(b"{\"usage\":null}"), None);
    assert_eq!(usage_of(b"{\"usage\":{\"prompt_tokens\":\"7\"}}"), None);
    assert_eq!(usage_of(b"[]"), None);
}
