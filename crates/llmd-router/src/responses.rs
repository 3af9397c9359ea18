//! Which endpoint made which response: `previous_response_id` means something only there.
//!
//! Kept by the router, filled when an answer of such an API ended, asked when a request
//! continues one. It is bounded and forgets the oldest; a router that never knew an id, or
//! forgot it, refuses the request rather than send it to an engine that cannot know it.

use serde::Deserialize;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Responses that are remembered: some MB.
const KEPT: usize = 65_536;

/// Where responses are. Ids are kept as hashes, keyed afresh in every process.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    hasher: RandomState,
    places: HashMap<u64, Place>,
    oldest_first: VecDeque<u64>,
}

/// An endpoint of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The model's served name.
    pub(crate) model: Arc<str>,
    /// The endpoint's name.
    pub(crate) endpoint: String,
}

impl Responses {
    /// A response was made there.
    pub(crate) fn made(&mut self, id: &str, place: Place) {
        let key = self.hasher.hash_one(id);
        if self.places.insert(key, place).is_none() {
            self.oldest_first.push_back(key);
        }
        if self.oldest_first.len() > KEPT
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.places.remove(&oldest);
        }
    }

    /// Where it was made, as far as it is known.
    pub(crate) fn place(&self, id: &str) -> Option<&Place> {
        self.places.get(&self.hasher.hash_one(id))
    }
}

#[derive(Deserialize)]
struct Made {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    response: Option<Box<Made>>,
}

/// The id in a response, or in the event that ends it.
pub(crate) fn id_of(json: &[u8]) -> Option<String> {
    let made: Made = serde_json::from_slice(json).ok()?;
    made.response.map_or(made.id, |response| response.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_known_and_the_oldest_forgotten() {
        let mut responses = Responses::default();
        let place = |n: usize| Place { model: Arc::from("m"), endpoint: format!("e{}", n % 7) };
        for n in 0..KEPT + 10 {
            responses.made(&n.to_string(), place(n));
            responses.made(&n.to_string(), place(n));
        }
        assert_eq!(responses.place("9"), None);
        for n in [10, 11, KEPT, KEPT + 9] {
            assert_eq!(responses.place(&n.to_string()), Some(&place(n)), "{n}");
        }
        assert_eq!((responses.places.len(), responses.oldest_first.len()), (KEPT, KEPT));
    }

    #[test]
    fn ids_are_found_in_responses_and_in_their_last_events() {
        for (json, id) in [
            (r#"{"id":"a","usage":{}}"#, Some("a")),
            (r#"{"type":"response.completed","id":"x","response":{"id":"a"}}"#, Some("a")),
            (r#"{"id":7}"#, None),
            ("[", None),
        ] {
            assert_eq!(id_of(json.as_bytes()).as_deref(), id, "{json}");
        }
    }
}
