use super::*;
use crate::{api, body};
use http::HeaderMap;

fn parts(body: &str) -> Vec<Part> {
    let chat = api::named("chat").unwrap();
    body::parse(chat, &HeaderMap::new(), body.as_bytes()).unwrap().prompt
}

fn keys_of(body: &str) -> Vec<u64> {
    keys(7, body.as_bytes(), &parts(body), &Multimodal::default())
}

/// A question of `text` about a picture of so many bytes.
fn picture(fill: &str, bytes: usize, text: &str) -> String {
    let data = fill.repeat(bytes);
    format!(
        "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":[{{\"type\":\"image_url\",\
         \"image_url\":{{\"url\":\"data:image/png;base64,{data}\"}}}},\
         {{\"type\":\"text\",\"text\":\"{text}\"}}]}}]}}"
    )
}

#[test]
fn a_prompt_of_one_part_has_the_chain_of_its_bytes() {
    let body = format!("{{\"model\":\"m\",\"messages\":[{:?}]}}", "x".repeat(500));
    let [part] = parts(&body).try_into().unwrap();
    let mut chain = Chain::new(7);
    chain.push(&body.as_bytes()[part.span]);
    assert_eq!(keys_of(&body), chain.keys());
}

#[test]
fn a_picture_counts_for_its_tokens_however_large_it_is() {
    let counts = Multimodal { image_tokens: 100, ..Multimodal::default() };
    let weigh = |body: &str| bytes(&parts(body), &counts);
    let (small, large) = (picture("A", 10, "hi"), picture("A", 1_000_000, "hi"));
    assert_eq!(weigh(&small), weigh(&large));
    assert!((400..600).contains(&weigh(&small)), "{}", weigh(&small));
    assert!(keys_of(&large).len() < 200);
}

#[test]
fn the_same_picture_shares_its_keys_and_another_does_not() {
    let shared = |one: &str, other: &str| {
        let (one, other) = (keys_of(one), keys_of(other));
        one.iter().zip(&other).take_while(|(a, b)| a == b).count()
    };
    let text = "what is it? ".repeat(20);
    let first = picture("A", 5_000, &text);
    let same = shared(&first, &picture("A", 5_000, &format!("{text}and else?")));
    assert!(same > 25, "{same}");
    // Another one, of the same size, that differs in its last byte only.
    let other = first.replacen("A\"}", "B\"}", 1);
    assert_ne!(first, other);
    assert!(shared(&first, &other) < 4);
}

#[test]
fn what_precedes_another_part_is_in_the_keys_to_its_last_byte() {
    let body = |tool: &str| {
        let text = "x".repeat(400);
        format!("{{\"model\":\"m\",\"tools\":[\"{tool}\"],\"messages\":[\"{text}\"]}}")
    };
    let (one, other) = (keys_of(&body("a")), keys_of(&body("b")));
    assert!(one.len() > 4);
    assert!(one.iter().all(|key| !other.contains(key)));
}
