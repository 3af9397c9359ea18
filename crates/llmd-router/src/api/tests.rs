use super::*;
use std::collections::HashSet;

#[test]
fn every_row_has_a_name_a_bit_and_paths_of_its_own() {
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    let mut bits = 0;
    for api in APIS {
        assert!(names.insert(api.name), "{}", api.name);
        assert!(!api.operation.is_empty(), "{}", api.name);
        assert_eq!(bits & api.bit(), 0, "{}", api.name);
        bits |= api.bit();
        assert_eq!(named(api.name), Some(api));
        for path in api.paths {
            assert!(paths.insert(path), "{path}");
            assert_eq!(at(path), Some(api));
        }
        let known = |key: &&&str| api.prompt.contains(*key);
        assert!(api.rich.iter().all(|key| known(&key)), "{}", api.name);
    }
    assert_eq!(at("/v1/chat/completions/"), None);
}

#[test]
fn each_api_is_told_by_its_operation_and_by_what_it_counts() {
    let generating = ["chat", "completions", "responses", "messages"];
    let hearing = ["transcriptions", "translations"];
    for (name, operation) in [
        ("chat", "chat"),
        ("completions", "text_completion"),
        ("responses", "chat"),
        ("messages", "chat"),
        ("count-tokens", "count_tokens"),
        ("embeddings", "embeddings"),
        ("rerank", "rerank"),
        ("score", "score"),
        ("pooling", "pooling"),
        ("classify", "classify"),
        ("tokenize", "tokenize"),
        ("detokenize", "detokenize"),
        ("transcriptions", "transcription"),
        ("translations", "translation"),
        ("speech", "speech"),
        ("images", "image_generation"),
        ("image-edits", "image_edit"),
    ] {
        let api = named(name).unwrap();
        assert_eq!(api.operation, operation, "{name}");
        assert_eq!(
            api.generates(),
            generating.contains(&name) || hearing.contains(&name),
            "{name}"
        );
        assert_eq!(api.usage == Told::Asked, ["chat", "completions"].contains(&name), "{name}");
    }
}
