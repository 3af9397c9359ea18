//! The requests of a workload: what is equal in them and what differs.
//!
//! A request is three slices, of which only the middle one is made anew for each: bodies of
//! hundreds of kilobytes are never copied.

use clap::ValueEnum;

/// The workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// 1 kB; the last words differ
    Small,
    /// 30 kB; 64 prompts, of which eight each begin with the same 8 kB
    Prompts,
    /// 400 kB; the first 300 kB are equal in all
    Warm,
    /// 400 kB; different from the first word on
    Cold,
    /// A short prompt with a streamed answer
    Stream,
}

/// Different prompts of [`Kind::Prompts`].
const PROMPTS: usize = 64;
/// Those that begin alike.
const GROUP: usize = 8;
/// What they have in common.
const SHARED: usize = 8_000;

/// One request body, as three slices.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    /// From the first byte to what differs.
    pub(crate) begin: &'a [u8],
    /// What differs.
    pub(crate) own: String,
    /// The rest.
    pub(crate) end: &'a [u8],
}

impl Body<'_> {
    /// Bytes in all.
    pub(crate) fn len(&self) -> usize {
        self.begin.len() + self.own.len() + self.end.len()
    }
}

/// Makes the bodies of one workload.
#[derive(Debug)]
pub(crate) struct Bodies {
    parts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether what differs is a number that never comes again.
    numbered: bool,
    next: u64,
}

impl Bodies {
    /// Those of `kind`, for `model`; streams get `tokens` tokens.
    pub(crate) fn new(kind: Kind, model: &str, tokens: u32) -> Self {
        let stream = kind == Kind::Stream;
        let one = |prompt: usize, before: usize, behind: usize| {
            let shared = if kind == Kind::Prompts { SHARED } else { 0 };
            let begin = format!(
                "{{\"user\":\"p{prompt}\",\"model\":\"{model}\",\"max_tokens\":{tokens},\
                 \"stream\":{stream},\"messages\":[{{\"role\":\"user\",\"content\":\"{}{}",
                words(prompt / GROUP + 1_000, shared),
                words(prompt, before)
            );
            (begin.into_bytes(), format!("{}\"}}]}}", words(7, behind)).into_bytes())
        };
        let parts = match kind {
            Kind::Small => vec![one(0, 800, 60)],
            Kind::Prompts => (0..PROMPTS).map(|prompt| one(prompt, 22_000, 0)).collect(),
            Kind::Warm => vec![one(0, 300_000, 100_000)],
            Kind::Cold => vec![one(0, 0, 400_000)],
            Kind::Stream => vec![one(0, 0, 400)],
        };
        Self { parts, numbered: kind != Kind::Prompts, next: 0 }
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> Body<'_> {
        let number = self.next;
        self.next += 1;
        // Not in turn: a router that deals in turn would meet each prompt at one engine always.
        let at = mixed(number) as usize % self.parts.len();
        let (begin, end) = &self.parts[at];
        let own = if self.numbered { format!("{:016x} ", mixed(number)) } else { String::new() };
        Body { begin, own, end }
    }
}

/// So many bytes of text that differ by `seed`, with a line break now and then.
fn words(seed: usize, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 16);
    let mut number = seed as u64 + 1;
    while text.len() < bytes {
        number = mixed(number);
        for digit in 0..3 + number % 7 {
            text.push(char::from(b'a' + (number >> (8 + 5 * digit)) as u8 % 26));
        }
        text.push_str(if number.is_multiple_of(13) { "\\n" } else { " " });
    }
    // Where it is cut may be in the middle of a line break.
    text.truncate(bytes);
    if text.ends_with('\\') {
        text.pop();
        text.push(' ');
    }
    text
}

/// A number that looks like chance (splitmix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(kind: Kind, count: usize) -> Vec<String> {
        let mut bodies = Bodies::new(kind, "m", 5);
        let text = |body: Body<'_>| {
            let all = [body.begin, body.own.as_bytes(), body.end].concat();
            assert_eq!(all.len(), body.len());
            String::from_utf8(all).unwrap()
        };
        (0..count).map(|_| text(bodies.next())).collect()
    }

    #[test]
    fn bodies_are_json_of_their_size() {
        let sizes = [
            (Kind::Small, 1_000),
            (Kind::Prompts, 30_000),
            (Kind::Warm, 400_000),
            (Kind::Cold, 400_000),
            (Kind::Stream, 500),
        ];
        for (kind, size) in sizes {
            for text in texts(kind, 3) {
                let json: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!((&json["model"], &json["max_tokens"]), (&"m".into(), &5.into()));
                let off = text.len().abs_diff(size);
                assert!(off * 20 < size, "{kind:?}: {}", text.len());
            }
        }
    }

    #[test]
    fn they_differ_where_they_should() {
        let equal = |kind| {
            let texts = texts(kind, 2);
            let pairs = texts[0].bytes().zip(texts[1].bytes());
            pairs.take_while(|(a, b)| a == b).count()
        };
        assert!((800..1_000).contains(&equal(Kind::Small)));
        assert!((300_000..301_000).contains(&equal(Kind::Warm)));
        assert!(equal(Kind::Cold) < 200);
        let mut prompts = texts(Kind::Prompts, 2_000);
        prompts.sort();
        prompts.dedup();
        assert_eq!(prompts.len(), PROMPTS);
    }
}
