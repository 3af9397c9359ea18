use super::*;
use llmd_types::Objective;

#[test]
fn all_that_a_model_says_of_placing_reaches_its_scheduler() {
    for (name, kind) in [
        ("expected-finish", SchedulerKind::ExpectedFinish),
        ("round-robin", SchedulerKind::RoundRobin),
        ("random", SchedulerKind::Random),
        ("least-request", SchedulerKind::LeastRequest),
        ("llm-d-default", SchedulerKind::LlmdDefault),
    ] {
        let text = format!(
            "version: 1\nretry: {{attempts: 7}}\nresilience: {{slowStartMs: 8}}\nmodels: [{{name: \
             chat, scheduler: {name}, objective: cost, slo: {{ttftUs: 5, itlUs: 6}}}}]\n"
        );
        let config = Config::parse(&text).unwrap();
        let made = pool_config(&config.models[0], &config);
        assert_eq!((made.scheduler, made.scheduler.name()), (kind, name));
        assert_eq!((made.objective, made.attempts), (Objective::Cost, 7));
        assert_eq!((made.slo.ttft_us, made.slo.itl_us), (Some(Micros(5)), Some(Micros(6))));
        assert_eq!(made.resilience.slow_start, Micros::from_millis(8));
        assert_eq!(made.prefix_seed, prefix::seed("chat"));
    }
}
