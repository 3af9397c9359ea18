//! The corpora of `fuzz/`, replayed: every input that a fuzzer was started with or once found.

#![allow(clippy::unwrap_used, reason = "a test may fail loudly")]

use llmd_router::fuzz;
use std::collections::BTreeMap;
use std::path::Path;

type Target = fn(&[u8]);

/// One target a line; its corpus has its name.
const TARGETS: [(&str, Target); 6] = [
    ("body", fuzz::body),
    ("config", fuzz::config),
    ("endpoints", fuzz::endpoints),
    ("head", fuzz::head),
    ("metrics", fuzz::metrics),
    ("sse", fuzz::sse),
];

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = if path.is_dir() { Vec::new() } else { std::fs::read(path).unwrap() };
        (name, bytes)
    };
    entries.map(named).collect()
}

#[test]
fn every_target_has_a_corpus_and_a_line_here() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let here: Vec<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(files(&fuzz.join("corpus")).into_keys().collect::<Vec<_>>(), here);
    let targets: Vec<String> = here.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(files(&fuzz.join("targets")).into_keys().collect::<Vec<_>>(), targets);
}

#[test]
fn every_input_of_every_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut failed = Vec::new();
    for (target, run) in TARGETS {
        let inputs = files(&corpus.join(target));
        assert!(inputs.len() >= 10, "{target} has too few inputs to mean anything");
        for (name, bytes) in inputs {
            if std::panic::catch_unwind(|| run(&bytes)).is_err() {
                failed.push(format!("{target}/{name}"));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
