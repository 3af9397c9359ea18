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
    assert_eq!(COMPLETIONS.name, "completions");
    assert_eq!(at("/v1/chat/completions/"), None);
}
