use super::*;
use crate::{State, StaticSource};

fn endpoint(name: &str, port: u16) -> Endpoint {
    Endpoint {
        name: name.into(),
        address: "127.0.0.1".into(),
        port,
        variant: None,
        accelerator: None,
        profile: None,
        role: None,
        state: State::Ready,
        revision: None,
    }
}

#[test]
fn several_sources_feed_one_pool() {
    let receiver = Discovery::start(vec![
        Box::new(StaticSource::new(vec![endpoint("a", 1)])),
        Box::new(StaticSource::new(vec![endpoint("b", 2)])),
    ])
    .unwrap();
    let names: Vec<_> = receiver.borrow().endpoints.iter().map(|e| e.name.clone()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn of_two_sources_with_one_name_the_first_counts_and_the_other_is_a_problem() {
    let receiver = Discovery::start(vec![
        Box::new(StaticSource::new(vec![endpoint("a", 1)])),
        Box::new(StaticSource::new(vec![endpoint("a", 2)])),
    ])
    .unwrap();
    let snapshot = receiver.borrow().clone();
    assert_eq!(snapshot.endpoints, [endpoint("a", 1)]);
    assert_eq!(snapshot.problems.len(), 1);
    assert!(snapshot.problems[0].contains("two sources"));
    let many = || (0..20).map(|at| endpoint(&format!("{at}{}", "x".repeat(200)), 1)).collect();
    let sources: [Box<dyn Source>; 2] =
        [many(), many()].map(|all| -> Box<dyn Source> { Box::new(StaticSource::new(all)) });
    let problems = Discovery::start(sources.into()).unwrap().borrow().problems.clone();
    assert_eq!((problems.len(), problems[10].as_str()), (11, "and 10 more"));
    assert!(problems.iter().all(|problem| problem.len() < 250), "{problems:?}");
}
