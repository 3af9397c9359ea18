//! Answers as bytes: one JSON object, or server-sent events with a token each.

use crate::job::{Job, News, Used};
use crate::request::{Answer, Api, Ask};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of any response of this server.
#[derive(Debug)]
pub(crate) enum AnswerBody {
    Whole(Option<Bytes>),
    Stream(Box<TokenStream>),
}

impl AnswerBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::Whole(Some(bytes.into()).filter(|bytes: &Bytes| !bytes.is_empty()))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Self::Whole(bytes) => bytes.take(),
            Self::Stream(stream) => ready!(stream.poll_piece(context)),
        };
        Poll::Ready(piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// The start of every object of an answer, up to its choices.
fn head(job: &Job, ask: &Ask, accelerator: &str) -> String {
    let (prefix, object) = match (ask.api, ask.stream) {
        (Api::Chat, false) => ("chatcmpl", "chat.completion"),
        (Api::Chat, true) => ("chatcmpl", "chat.completion.chunk"),
        (Api::Completions, _) => ("cmpl", "text_completion"),
    };
    let quoted = |text: String| Value::String(text).to_string();
    let id = quoted(format!("{prefix}-{}", job.request_id()));
    let created = job.arrived_at_seconds();
    let model = quoted(ask.model.clone());
    let made_by = quoted(format!("simulated-{accelerator}"));
    format!(r#"{{"id":{id},"object":"{object}","created":{created},"model":{model},"#)
        + &format!(r#""system_fingerprint":{made_by},"choices":["#)
}

fn usage(used: Used) -> Value {
    json!({
        "prompt_tokens": used.prompt,
        "completion_tokens": used.completion,
        "total_tokens": used.prompt.saturating_add(used.completion),
        "prompt_tokens_details": {"cached_tokens": used.cached},
    })
}

/// The reason of a request in the log: that of its first answer.
fn reason(answers: &[Answer]) -> &'static str {
    answers.first().map_or("length", |answer| answer.finish.name())
}

/// Waits for all answers and returns the whole object.
pub(crate) async fn whole(mut job: Job, ask: &Ask, accelerator: &str) -> Bytes {
    let head = head(&job, ask, accelerator);
    let mut news = Vec::new();
    while !job.is_whole() {
        std::future::poll_fn(|context| job.poll_news(context, &mut news)).await;
        news.clear();
    }
    let choice = |(index, answer): (usize, &Answer)| {
        let (mut text, mut at) = (String::new(), 0);
        answer.filler.write(0, answer.tokens, &mut at, &mut text);
        let finish = answer.finish.name();
        let object = match ask.api {
            Api::Chat => json!({"index": index, "logprobs": null, "finish_reason": finish,
                "message": {"role": "assistant", "content": text}}),
            Api::Completions => json!({"index": index, "logprobs": null, "finish_reason": finish,
                "text": text}),
        };
        object.to_string()
    };
    let choices: Vec<String> = ask.answers.iter().enumerate().map(choice).collect();
    job.head_sent();
    let usage = usage(job.finish(reason(&ask.answers)));
    format!("{head}{}],\"usage\":{usage}}}", choices.join(",")).into()
}

/// An answer that goes out token by token.
#[derive(Debug)]
pub(crate) struct TokenStream {
    job: Job,
    api: Api,
    head: String,
    answers: Vec<Answer>,
    /// Bytes of each answer's text that went out.
    at: Vec<usize>,
    include_usage: bool,
    news: Vec<News>,
    ended: bool,
}

impl TokenStream {
    pub(crate) fn new(mut job: Job, ask: Ask, accelerator: &str) -> Self {
        job.head_sent();
        Self {
            head: head(&job, &ask, accelerator),
            api: ask.api,
            at: vec![0; ask.answers.len()],
            answers: ask.answers,
            include_usage: ask.include_usage,
            news: Vec::new(),
            ended: false,
            job,
        }
    }

    /// The next bytes; several tokens at once where several are due.
    fn poll_piece(&mut self, context: &Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended {
            return Poll::Ready(None);
        }
        ready!(self.job.poll_news(context, &mut self.news));
        let mut out = String::with_capacity(512);
        let news = std::mem::take(&mut self.news);
        for &News { choice, from, to, whole } in &news {
            for token in from..to {
                self.write_token(choice, token, whole && token + 1 == to, &mut out);
            }
        }
        self.news = news;
        self.news.clear();
        if self.job.is_whole() {
            self.write_end(&mut out);
        }
        Poll::Ready(Some(out.into()))
    }

    /// One event with one token. Filler needs no escapes; a write to a `String` cannot fail.
    fn write_token(&mut self, choice: usize, token: u32, last: bool, out: &mut String) {
        let answer = self.answers[choice];
        let (open, close) = match (self.api, token) {
            (Api::Chat, 0) => (r#""delta":{"role":"assistant","content":""#, "\"}"),
            (Api::Chat, _) => (r#""delta":{"content":""#, "\"}"),
            (Api::Completions, _) => (r#""text":""#, "\""),
        };
        let _ = write!(out, "data: {}{{\"index\":{choice},{open}", self.head);
        answer.filler.write(token, token + 1, &mut self.at[choice], out);
        let _ = write!(out, "{close},\"logprobs\":null,\"finish_reason\":");
        if last {
            let _ = write!(out, "\"{}\"}}]}}\n\n", answer.finish.name());
        } else {
            out.push_str("null}]}\n\n");
        }
    }

    /// What follows the last token.
    fn write_end(&mut self, out: &mut String) {
        self.ended = true;
        let usage = usage(self.job.finish(reason(&self.answers)));
        if self.include_usage {
            let _ = write!(out, "data: {}],\"usage\":{usage}}}\n\n", self.head);
        }
        out.push_str("data: [DONE]\n\n");
    }
}
