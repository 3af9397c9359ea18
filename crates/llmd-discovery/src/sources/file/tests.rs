use super::*;
use crate::Discovery;
use std::time::Instant;
use tokio::sync::watch::Receiver;

const GOOD: &str = "endpoints:\n- {name: a, address: 10.0.0.1, port: \"8000\"}\n";

fn start(
    text: &str,
) -> (tempfile::TempDir, PathBuf, Result<Receiver<crate::Snapshot>, DiscoveryError>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("endpoints.yaml");
    std::fs::write(&path, text).unwrap();
    let started = Discovery::start(vec![Box::new(FileSource::new(&path))]);
    (folder, path, started)
}

fn wait_for(receiver: &Receiver<crate::Snapshot>, what: impl Fn(&crate::Snapshot) -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !what(&receiver.borrow()) {
        assert!(Instant::now() < end, "last seen: {:?}", *receiver.borrow());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn names(snapshot: &crate::Snapshot) -> Vec<String> {
    snapshot.endpoints.iter().map(|e| e.name.clone()).collect()
}

#[test]
fn labels_name_role_accelerator_and_profile() {
    let reading = parse(
        "endpoints:\n- name: a\n  namespace: prod\n  address: 10.0.0.1\n  port: \"8000\"\n  \
         extra: 1\n  labels: {llm-d.ai/role: decode, llm-d.ai/accelerator-variant: h100, \
         llmd-ctl.dev/profile: nvidia-h100, other: x}\n",
    )
    .unwrap();
    let endpoint = &reading.endpoints[0];
    assert_eq!(endpoint.name, "prod/a");
    assert_eq!(endpoint.role.as_deref(), Some("decode"));
    assert_eq!(endpoint.accelerator.as_deref(), Some("h100"));
    assert_eq!(endpoint.profile.as_deref(), Some("nvidia-h100"));
}

#[test]
fn json_with_tabs_is_read() {
    let json =
        "{\n\t\"endpoints\": [{\"name\": \"a\", \"address\": \"10.0.0.1\", \"port\": \"1\"}]}";
    assert_eq!(parse(json).unwrap().endpoints.len(), 1);
}

#[test]
fn of_duplicates_the_last_counts() {
    let text = "endpoints:\n- {name: a, address: 10.0.0.1, port: \"1\"}\n\
                - {name: a, namespace: default, address: 10.0.0.2, port: \"2\"}\n";
    let reading = parse(text).unwrap();
    assert_eq!(reading.endpoints.len(), 1);
    assert_eq!(reading.endpoints[0].address, "10.0.0.2");
}

#[test]
fn each_bad_entry_is_named_with_its_place() {
    let text = "endpoints:\n- {address: 10.0.0.1, port: \"1\"}\n\
                - {name: b, address: host, port: \"1\"}\n\
                - {name: c, address: 10.0.0.1, port: 8000}\n\
                - {name: d, address: 10.0.0.1, port: \"0\"}\n\
                - {name: e, address: 10.0.0.1, port: \"65536\"}\n\
                - {name: f, address: \"::1\", port: \"1\"}\n";
    let reading = parse(text).unwrap();
    assert!(reading.endpoints.is_empty());
    let problems = reading.problems;
    assert_eq!(problems.len(), 6, "{problems:?}");
    assert_eq!(problems[0], "endpoints[0]: name is missing");
    assert!(problems[1].contains("IPv4"));
    assert!(problems[2].contains("must be a string"));
}

#[test]
fn a_bad_entry_at_the_start_is_an_error() {
    let (_folder, _, started) =
        start("endpoints:\n- {name: a, address: 10.0.0.1, port: \"1\"}\n- {name: b}\n");
    assert!(matches!(started, Err(DiscoveryError::Entries { .. })));
}

#[test]
fn a_missing_empty_or_too_large_file_at_the_start_is_an_error() {
    let missing = Discovery::start(vec![Box::new(FileSource::new("/nonexistent/e.yaml"))]);
    assert!(matches!(missing, Err(DiscoveryError::File { .. })));
    assert!(matches!(start("\n").2, Err(DiscoveryError::File { .. })));
    let large = format!("{GOOD}#{}\n", "x".repeat(1 << 20));
    assert!(matches!(start(&large).2, Err(DiscoveryError::File { .. })));
}

#[test]
fn an_atomic_rename_is_seen() {
    let (folder, path, started) = start(GOOD);
    let receiver = started.unwrap();
    let next = folder.path().join("next");
    std::fs::write(&next, GOOD.replace("name: a", "name: b")).unwrap();
    std::fs::rename(next, path).unwrap();
    wait_for(&receiver, |snapshot| names(snapshot) == ["b"]);
}

#[test]
fn a_removed_file_keeps_the_old_state_and_a_new_one_is_seen() {
    let (_folder, path, started) = start(GOOD);
    let receiver = started.unwrap();
    std::fs::remove_file(&path).unwrap();
    wait_for(&receiver, |snapshot| snapshot.problems.iter().any(|p| p.contains("stay as they")));
    assert_eq!(names(&receiver.borrow()), ["a"]);
    std::fs::write(&path, GOOD.replace("name: a", "name: c")).unwrap();
    wait_for(&receiver, |snapshot| names(snapshot) == ["c"] && snapshot.problems.is_empty());
}

#[test]
fn a_removed_file_that_returns_unchanged_clears_the_problem() {
    let (_folder, path, started) = start(GOOD);
    let receiver = started.unwrap();
    std::fs::remove_file(&path).unwrap();
    wait_for(&receiver, |snapshot| !snapshot.problems.is_empty());
    std::fs::write(&path, GOOD).unwrap();
    wait_for(&receiver, |snapshot| names(snapshot) == ["a"] && snapshot.problems.is_empty());
}

#[test]
fn a_file_that_does_not_parse_keeps_the_old_state() {
    let (_folder, path, started) = start(GOOD);
    let receiver = started.unwrap();
    std::fs::write(&path, "endpoints: [").unwrap();
    wait_for(&receiver, |snapshot| snapshot.problems.iter().any(|p| p.contains("YAML")));
    assert_eq!(names(&receiver.borrow()), ["a"]);
}

#[test]
fn a_file_of_which_no_entry_can_be_used_keeps_the_old_state() {
    let bad = "endpoints:\n- {name: b, address: nowhere, port: \"1\"}\n- 7\n";
    for text in [bad, "endpoints:\n", "endpoint: []\n", "{\"endpoints\": null}"] {
        let (_folder, path, started) = start(GOOD);
        let receiver = started.unwrap();
        std::fs::write(&path, text).unwrap();
        wait_for(&receiver, |snapshot| !snapshot.problems.is_empty());
        assert_eq!(names(&receiver.borrow()), ["a"], "{text}");
        let problems = receiver.borrow().problems.clone();
        let [problem] = &problems[..] else { panic!("{text}") };
        assert!(problem.ends_with("; the endpoints stay as they were"), "{problem}");
        if text == bad {
            for told in ["endpoints[0]: b: address \"nowhere\"", "endpoints[1]: ", "a mapping"] {
                assert!(problem.contains(told), "{told}: {problem}");
            }
        }
        // None at all is meant where it is written.
        std::fs::write(&path, "endpoints: []\n").unwrap();
        wait_for(&receiver, |snapshot| snapshot.endpoints.is_empty());
    }
}

#[test]
fn what_is_long_is_told_in_short() {
    let long = "x".repeat(5_000);
    let entry = |name: &str, more: &str| format!("- {{name: {name}, port: \"1\", {more}}}\n");
    let entries = [
        entry(&long, "address: 10.0.0.1"),
        entry("b", &format!("address: {long}")),
        entry("c", &format!("address: 10.0.0.1, labels: {{llm-d.ai/role: {long}}}")),
        entry("d", &format!("address: 10.0.0.1, labels: {long}")),
        entry("e", &format!("address: 10.0.0.1, namespace: {long}")),
    ];
    let reading = parse(&format!("endpoints:\n{}", entries.concat())).unwrap();
    assert_eq!((reading.endpoints.len(), reading.problems.len()), (0, 5));
    for problem in &reading.problems {
        assert!(problem.contains('c') || problem.contains('…'), "{problem}");
        assert!(problem.len() < 250, "{problem}");
    }
    let steering = parse("endpoints:\n- {name: \"a\\e[2J\\n\", port: \"1\", address: 10.0.0.1}\n");
    let told = "endpoints[0]: a\\u{1b}[2J\\n: name has a control character";
    assert_eq!(steering.unwrap().problems, [told]);
    let whole = parse(&format!("endpoints: \"{long}\"\n")).unwrap_err();
    assert!(whole.contains('…') && whole.len() < 300, "{whole}");
    let many = parse(&format!("endpoints:\n{}", "- {}\n".repeat(1_000))).unwrap();
    assert_eq!(many.problems.len(), 11);
    assert_eq!(many.problems[10], "and 990 more");
}

#[test]
fn a_bad_entry_on_reload_is_dropped_and_named_and_good_ones_are_applied() {
    let (_folder, path, started) = start(GOOD);
    let receiver = started.unwrap();
    let text = "endpoints:\n- {name: a, address: nowhere, port: \"1\"}\n\
                - {name: b, address: 10.0.0.2, port: \"2\"}\n";
    std::fs::write(&path, text).unwrap();
    wait_for(&receiver, |snapshot| names(snapshot) == ["b"] && snapshot.problems.len() == 1);
    assert!(receiver.borrow().problems[0].contains("endpoints[0]"));
}
