//! W3C trace context: the `traceparent` header, read and written.

use crate::ids::hex;
use http::HeaderValue;
use opentelemetry::trace::{SpanContext, SpanId, TraceId};

/// A span of somebody else that ours continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    /// The trace.
    pub(crate) trace: TraceId,
    /// The caller's span.
    pub(crate) span: SpanId,
    /// Whether the caller records it.
    pub(crate) sampled: bool,
}

impl Parent {
    /// Reads a header; `None` for what is no trace context, which is then ignored.
    pub(crate) fn parse(header: &HeaderValue) -> Option<Self> {
        let text = header.to_str().ok()?;
        let mut parts = text.split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        let flags = parts.next()?;
        let lower = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let sizes = [version.len(), trace.len(), span.len(), flags.len()] == [2, 32, 16, 2];
        let shape = sizes && [version, trace, span, flags].into_iter().all(lower);
        // Version 00 has four parts; later ones may have more; ff is none.
        if !shape || version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let trace = TraceId::from_hex(trace).ok().filter(|id| *id != TraceId::INVALID)?;
        let span = SpanId::from_hex(span).ok().filter(|id| *id != SpanId::INVALID)?;
        let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        Some(Self { trace, span, sampled })
    }

    /// As a header.
    pub(crate) fn header(self) -> HeaderValue {
        text(self.trace, self.span, self.sampled).unwrap_or_else(|| HeaderValue::from_static(""))
    }
}

/// A span of ours as the header for the next hop.
pub(super) fn traceparent(context: &SpanContext) -> Option<HeaderValue> {
    text(context.trace_id(), context.span_id(), context.is_sampled())
}

/// Written by hand: every request has one, and the formatter takes ten times as long.
fn text(trace: TraceId, span: SpanId, sampled: bool) -> Option<HeaderValue> {
    let mut text = Vec::with_capacity(55);
    text.extend_from_slice(b"00-");
    hex(&mut text, &trace.to_bytes());
    text.push(b'-');
    hex(&mut text, &span.to_bytes());
    text.extend_from_slice(if sampled { b"-01" } else { b"-00" });
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn parse(text: &str) -> Option<Parent> {
        Parent::parse(&HeaderValue::from_str(text).unwrap())
    }

    #[test]
    fn a_header_is_read_and_written_back() {
        let parent = parse(GOOD).unwrap();
        assert!(parent.sampled);
        assert_eq!(parent.header(), GOOD);
        assert!(!parse(&GOOD.replace("-01", "-00")).unwrap().sampled);
        assert!(parse(&GOOD.replace("00-", "01-").replace("-01", "-01-more")).is_some());
    }

    #[test]
    fn what_is_no_trace_context_is_ignored() {
        let bad = [
            "",
            "x",
            &GOOD.replace("00-", "ff-"),
            &GOOD.to_uppercase(),
            &GOOD.replace("0af7", "0"),
            &GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            &format!("{GOOD}-more"),
        ];
        for text in bad {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
