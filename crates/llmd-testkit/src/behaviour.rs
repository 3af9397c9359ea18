//! The table of what a fake engine can do with a request. A new row is one line here and one
//! in `engine::answer`.

use std::time::Duration;

/// What happens to one request. Chunks are SSE events of a streamed answer; a request that does
/// not ask for a stream gets one JSON object.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Answers as it should: this many chunks, with a pause before each.
    Ok(usize, Duration),
    /// As `Ok`, with a usage chunk at the end: prompt, cached and completion tokens.
    Usage(usize, [u32; 3]),
    /// Answers with this status and an error object.
    Status(u16),
    /// Reads the request and never answers.
    Hang,
    /// Sends the head and no byte of the body.
    HangAfterHead,
    /// Sends this many chunks, then nothing more.
    StallAfter(usize),
    /// Waits, then answers as it should.
    SlowFirstByte(Duration),
    /// Closes the connection after it read the request.
    CloseBeforeHead,
    /// Sends the head and this many chunks, then the connection breaks.
    DieAfter(usize),
    /// Sends this many chunks and shuts its sending side without an end.
    HalfClose(usize),
    /// Answers with a page of HTML and status 200.
    WrongContentType,
    /// Answers with a JSON object of so many bytes, each after a pause.
    Drip(usize, Duration),
    /// Sends these bytes as they are, then closes.
    Raw(Vec<u8>),
    /// Sends these bytes as they are, and then does this.
    RawThen(Vec<u8>, Then),
    /// Sends these bytes as soon as it has the request's head, reads nothing of the body, and
    /// closes.
    Early(Vec<u8>),
    /// Answers the first request of a connection as it should; closes where it reads another.
    CloseOnReuse,
}

/// What becomes of a connection behind raw bytes.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// It is closed (FIN).
    Close,
    /// It is broken (RST).
    Reset,
    /// It is there for the next request.
    Keep,
    /// It stays open and silent.
    Hang,
}

impl Behaviour {
    /// A short answer at once.
    pub fn ok() -> Self {
        Self::Ok(3, Duration::ZERO)
    }
}
