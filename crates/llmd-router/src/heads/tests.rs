#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use super::{Fault, Heads};

const POST: &str = "POST / HTTP/1.1\r\nhost: x\r\n";

/// What comes of bytes, fed whole and one by one.
fn read(bytes: &[u8]) -> Heads {
    let mut whole = Heads::default();
    whole.push(bytes);
    let mut drip = Heads::default();
    for byte in bytes {
        drip.push(std::slice::from_ref(byte));
    }
    let shape = |heads: &Heads| (heads.fault, heads.whole, heads.between(), heads.within_head());
    assert_eq!(shape(&whole), shape(&drip));
    whole
}

#[test]
fn well_framed_requests_are_followed() {
    for (behind, whole, between) in [
        ("\r\n", 1, true),
        ("content-length: 0\r\n\r\n", 1, true),
        ("content-length: 5\r\n\r\nhello", 1, true),
        ("content-length: 5\r\n\r\nhell", 1, false),
        ("Content-Length:\t5 \r\n\r\nhello\r\n", 1, true),
        // A body that looks like a head.
        ("content-length: 40\r\n\r\nX / HTTP/1.1\ncontent-length: 1\nte: x\n\n\n\n", 1, true),
        ("transfer-encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 1, true),
        ("transfer-encoding: chunked\r\n\r\nA;x=\"y\"\r\n0123456789\r\n0\r\na: b\r\n\r\n", 1, true),
        ("transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n", 2, true),
        ("content-length: 1\r\n\r\nxGET / HTTP/1.1\r\n\r\nGET", 2, false),
        ("tab: x\r\ncookie: y\r\n\r\n", 1, true),
    ] {
        let heads = read(format!("{POST}{behind}").as_bytes());
        assert_eq!((heads.fault, heads.whole, heads.between()), (None, whole, between), "{behind}");
    }
}

#[test]
fn ambiguous_framing_is_a_fault_of_that_request() {
    let both = "content-length and transfer-encoding exclude each other";
    let (cr, twice) = ("a line ends without CR", "content-length is given twice");
    let (no_number, other) =
        ("content-length is no number", "transfer-encoding is not just chunked");
    for (behind, request, why) in [
        ("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 1, both),
        ("transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", 1, both),
        ("content-length: 5\r\ncontent-length: 6\r\n\r\nhello", 1, twice),
        ("content-length: 5\r\ncontent-length: 5\r\n\r\nhello", 1, twice),
        ("content-length: +5\r\n\r\nhello", 1, no_number),
        ("content-length: 5 5\r\n\r\nhello", 1, no_number),
        ("content-length: 5, 5\r\n\r\nhello", 1, no_number),
        ("content-length: 99999999999999999999\r\n\r\nhello", 1, no_number),
        ("content-length:\r\n\r\nhello", 1, no_number),
        ("transfer-encoding: gzip, chunked\r\n\r\n", 1, other),
        ("transfer-encoding: identity\r\n\r\n", 1, other),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n", 1, other),
        ("a: b\nc: d\r\n\r\n", 1, cr),
        ("\n", 1, cr),
        ("\r\nGET / HTTP/1.1\n\n", 2, cr),
        ("content-length: 2\r\n\r\nxxGET / HTTP/1.1\r\ncontent-length: x\r\n\r\n", 2, no_number),
    ] {
        let fault = read(format!("{POST}{behind}").as_bytes()).fault();
        assert_eq!(fault, Some(Fault { request, why }), "{behind}");
    }
}

#[test]
fn chunks_without_a_size_are_left_to_the_library() {
    for size in ["x", "-1", "", "ffffffffffffffff", "fffffffffffffffff"] {
        let head = format!("{POST}transfer-encoding: chunked\r\n\r\n{size}\r\n");
        let heads = read(head.as_bytes());
        assert_eq!((heads.fault(), heads.between()), (None, false), "{size}");
    }
}

#[test]
fn a_line_without_end_is_not_kept() {
    let mut heads = Heads::default();
    for _ in 0..100 {
        heads.push(&[b'a'; 10_000]);
        assert!(heads.begun.len() <= super::LINE_MAX + 10_000);
    }
    assert!(heads.begun.is_empty() && heads.fault().is_none());
}
