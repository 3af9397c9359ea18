//! The APIs that the data port speaks: one row each, and nothing else is let through.
//!
//! Read in every phase: where the model and the prompt stand in a body, how an answer tells of
//! usage, how its stream ends. A new API is a new row. Whether an endpoint speaks it is the
//! endpoint's to say: its 404 passes on, unless `apis` of its variant says so beforehand.

use crate::body::Media;

/// One API.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Api {
    /// As `apis` in `router.yaml` names it.
    pub(crate) name: &'static str,
    /// Its paths. What engines serve it under, the router does.
    pub(crate) paths: &'static [&'static str],
    /// For traces: `gen_ai.operation.name`.
    pub(crate) operation: &'static str,
    /// How a body is written.
    pub(crate) form: Form,
    /// Whether a body must name a model. Where its API says that it need not, a router with one
    /// model takes that one.
    pub(crate) names_model: bool,
    /// Members (or form parts) that make the prompt, in the order in which templates put them.
    /// None where an engine computes nothing on its accelerator.
    pub(crate) prompt: &'static [&'static str],
    /// Those of them in which there can be something else than text.
    pub(crate) rich: &'static [&'static str],
    /// Keys in there whose value is no text.
    pub(crate) media: &'static [(&'static str, Media)],
    /// How usage is told in a stream.
    pub(crate) usage: Told,
    /// Event names that end a stream; `[DONE]` always does.
    pub(crate) ends: &'static [&'static str],
    /// Whether engines keep its answers, for requests that continue them.
    pub(crate) keeps: bool,
    /// How its clients expect errors.
    pub(crate) errors: Errors,
}

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A JSON object.
    Json,
    /// `multipart/form-data`.
    Multipart,
}

/// How usage is told in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// In a chunk of its own, where `stream_options.include_usage` asks for it.
    Asked,
    /// Always, or where a field of its own asks for it.
    Always,
    /// There is no answer in tokens to count.
    Never,
}

/// How clients expect errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Errors {
    /// As the `OpenAI` API tells them.
    #[default]
    OpenAi,
    /// As Anthropic's API does.
    Anthropic,
}

/// What most rows have.
const ROW: Api = Api {
    name: "",
    paths: &[],
    operation: "",
    form: Form::Json,
    names_model: true,
    prompt: &[],
    rich: &[],
    media: &[],
    usage: Told::Never,
    ends: &[],
    keeps: false,
    errors: Errors::OpenAi,
};

/// Parts of a chat's messages.
const CHAT_MEDIA: &[(&str, Media)] = &[
    ("image_url", Media::Image),
    ("input_audio", Media::Audio),
    ("audio_url", Media::Audio),
    ("video_url", Media::Video),
    ("file", Media::File),
];

/// All APIs.
pub(crate) const APIS: &[Api] = &[
    Api {
        name: "chat",
        paths: &["/v1/chat/completions"],
        operation: "chat",
        prompt: &["tools", "messages"],
        rich: &["messages"],
        media: CHAT_MEDIA,
        usage: Told::Asked,
        ..ROW
    },
    Api {
        name: "completions",
        paths: &["/v1/completions"],
        operation: "text_completion",
        prompt: &["prompt", "suffix"],
        usage: Told::Asked,
        ..ROW
    },
    Api {
        name: "responses",
        paths: &["/v1/responses"],
        operation: "chat",
        prompt: &["tools", "instructions", "input"],
        rich: &["input"],
        media: &[
            ("image_url", Media::Image),
            ("input_audio", Media::Audio),
            ("file_data", Media::File),
            ("file_url", Media::File),
        ],
        usage: Told::Always,
        ends: &["response.completed", "response.failed", "response.incomplete", "error"],
        keeps: true,
        ..ROW
    },
    Api {
        name: "messages",
        paths: &["/v1/messages"],
        operation: "chat",
        prompt: &["tools", "system", "messages"],
        rich: &["messages"],
        media: &[("source", Media::Source)],
        usage: Told::Always,
        ends: &["message_stop", "error"],
        errors: Errors::Anthropic,
        ..ROW
    },
    Api {
        name: "count-tokens",
        paths: &["/v1/messages/count_tokens"],
        operation: "count_tokens",
        errors: Errors::Anthropic,
        ..ROW
    },
    Api {
        name: "embeddings",
        paths: &["/v1/embeddings"],
        operation: "embeddings",
        prompt: &["input", "messages"],
        rich: &["messages"],
        media: CHAT_MEDIA,
        ..ROW
    },
    Api {
        name: "rerank",
        paths: &["/rerank", "/v1/rerank", "/v2/rerank"],
        operation: "rerank",
        names_model: false,
        prompt: &["query", "documents"],
        rich: &["query", "documents"],
        media: CHAT_MEDIA,
        ..ROW
    },
    Api {
        name: "score",
        paths: &["/score", "/v1/score"],
        operation: "score",
        names_model: false,
        prompt: &[
            "text_1",
            "queries",
            "items_1",
            "data_1",
            "text_2",
            "documents",
            "items_2",
            "data_2",
        ],
        rich: &["queries", "data_1", "documents", "data_2"],
        media: CHAT_MEDIA,
        ..ROW
    },
    Api {
        name: "pooling",
        paths: &["/pooling"],
        operation: "pooling",
        names_model: false,
        prompt: &["input", "messages", "data"],
        rich: &["messages"],
        media: CHAT_MEDIA,
        ..ROW
    },
    Api {
        name: "classify",
        paths: &["/classify"],
        operation: "classify",
        names_model: false,
        prompt: &["input", "messages"],
        rich: &["messages"],
        media: CHAT_MEDIA,
        ..ROW
    },
    Api {
        name: "tokenize",
        paths: &["/tokenize"],
        operation: "tokenize",
        names_model: false,
        ..ROW
    },
    Api {
        name: "detokenize",
        paths: &["/detokenize"],
        operation: "detokenize",
        names_model: false,
        ..ROW
    },
    Api {
        name: "transcriptions",
        paths: &["/v1/audio/transcriptions"],
        operation: "transcription",
        form: Form::Multipart,
        prompt: &["prompt", "file"],
        media: &[("file", Media::Audio)],
        usage: Told::Always,
        ends: &["transcript.text.done"],
        ..ROW
    },
    Api {
        name: "translations",
        paths: &["/v1/audio/translations"],
        operation: "translation",
        form: Form::Multipart,
        prompt: &["prompt", "file"],
        media: &[("file", Media::Audio)],
        usage: Told::Always,
        ends: &["transcript.text.done"],
        ..ROW
    },
    Api {
        name: "speech",
        paths: &["/v1/audio/speech"],
        operation: "speech",
        prompt: &["instructions", "input"],
        ends: &["speech.audio.done"],
        ..ROW
    },
    Api {
        name: "images",
        paths: &["/v1/images/generations"],
        operation: "image_generation",
        names_model: false,
        prompt: &["prompt"],
        ends: &["image_generation.completed"],
        ..ROW
    },
    Api {
        name: "image-edits",
        paths: &["/v1/images/edits"],
        operation: "image_edit",
        form: Form::Multipart,
        names_model: false,
        prompt: &["prompt", "image", "image[]", "mask"],
        media: &[("image", Media::Image), ("image[]", Media::Image), ("mask", Media::Image)],
        ends: &["image_edit.completed"],
        ..ROW
    },
];

/// The API under a path.
pub(crate) fn at(path: &str) -> Option<&'static Api> {
    APIS.iter().find(|api| api.paths.contains(&path))
}

/// An API by its name.
pub(crate) fn named(name: &str) -> Option<&'static Api> {
    APIS.iter().find(|api| api.name == name)
}

impl Api {
    /// Its bit in a set of APIs.
    pub(crate) fn bit(&self) -> u32 {
        let at = APIS.iter().position(|api| api.name == self.name);
        at.map_or(0, |at| 1 << at)
    }

    /// What an answer is counted in: tokens one by one, or as a whole.
    pub(crate) const fn generates(&self) -> bool {
        !matches!(self.usage, Told::Never)
    }

    /// What a key's value is, where it is no text.
    pub(crate) fn media(&self, key: &[u8]) -> Option<Media> {
        let row = self.media.iter().find(|(name, _)| name.as_bytes() == key);
        row.map(|(_, media)| *media)
    }
}

#[cfg(test)]
mod tests;
