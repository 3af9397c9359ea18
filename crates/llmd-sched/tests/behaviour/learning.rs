//! What is learned from answers, and what must not teach.

use crate::world::{Ask, World, ask, round, slower, usage};
use llmd_sched::{EndpointIndex, Event, Pick, PoolConfig};
use llmd_types::{Confidence, Outcome, ReplicaFacts, Usage};

fn with_confidence(confidence: Confidence) -> ReplicaFacts {
    ReplicaFacts { confidence, ..round() }
}

fn one(confidence: Confidence) -> World {
    World::with(PoolConfig::default(), &[with_confidence(confidence)])
}

/// A streamed request at `endpoint`: first byte after `ttft` us, then `steps` tokens, each `itl`
/// us later, then its end.
fn stream(world: &mut World, endpoint: u16, ttft: u64, steps: u32, itl: u64, outcome: Outcome) {
    let pick = world.try_arrive(&ask(10_000, steps + 1), Some(EndpointIndex(endpoint))).unwrap();
    world.send(pick.request);
    world.wait(ttft);
    world.step(Event::FirstByte(pick.request));
    world.step(Event::Progress(pick.request, 1));
    for _ in 0..steps {
        world.wait(itl);
        world.step(Event::Progress(pick.request, 1));
    }
    world.end(pick.request, outcome, usage(10_000, steps + 1));
}

/// What the facts say of that request: a step of 1,000 + 10,000, and one until it is seen.
const TTFT: u64 = PREFILL + LAG;
const PREFILL: u64 = 11_000;
const LAG: u64 = 1_001;

#[test]
fn a_slower_prefill_is_learned_within_what_confidence_allows() {
    for (confidence, times, low, high) in [
        (Confidence::High, 1.5, 1.4, 1.55),
        (Confidence::High, 8.0, 1.8, 2.0),
        (Confidence::Medium, 8.0, 3.5, 4.0),
        (Confidence::Low, 8.0, 7.0, 8.3),
        (Confidence::Low, 40.0, 14.0, 16.0),
    ] {
        let mut world = one(confidence);
        for _ in 0..60 {
            stream(&mut world, 0, (PREFILL as f64 * times) as u64 + LAG, 0, 0, Outcome::Done);
        }
        let found = world.endpoint(0).prefill_correction;
        assert!((low..=high).contains(&found), "{confidence:?} {times}: {found}");
        let ttft = world.arrive(&ask(10_000, 10)).reasons.ttft.0 as f64;
        assert!((ttft / (TTFT as f64 * found) - 1.0).abs() < 0.2, "forecasts use it: {ttft}");
    }
}

#[test]
fn a_faster_prefill_is_learned_too() {
    let mut world = one(Confidence::Medium);
    for _ in 0..60 {
        stream(&mut world, 0, 1_001 + 5_500, 0, 0, Outcome::Done);
    }
    let found = world.endpoint(0).prefill_correction;
    assert!((0.45..0.6).contains(&found), "{found}");
}

#[test]
fn a_correction_at_its_bound_is_said() {
    let mut world = one(Confidence::High);
    for _ in 0..300 {
        stream(&mut world, 0, TTFT * 20, 0, 0, Outcome::Done);
    }
    let texts = world.endpoint(0).degraded.concat();
    assert!(texts.contains("prefill times are off by 1.9"), "{texts}");
}

#[test]
fn step_times_are_learned_from_the_tokens_of_streams() {
    let mut world = one(Confidence::Medium);
    for _ in 0..60 {
        stream(&mut world, 0, PREFILL + 3 * LAG, 40, 3 * LAG, Outcome::Done);
    }
    let found = world.endpoint(0);
    assert!((2.5..3.05).contains(&found.step_correction), "{found:?}");
    assert!((0.9..1.1).contains(&found.prefill_correction), "{found:?}");
    let itl = world.arrive(&ask(100, 10)).reasons.itl.0;
    assert!((2_500..3_050).contains(&itl), "forecasts use it: {itl}");
}

#[test]
fn failures_teach_nothing() {
    for outcome in [Outcome::Refused, Outcome::Lost, Outcome::Cancelled] {
        let mut world = one(Confidence::Low);
        for _ in 0..60 {
            stream(&mut world, 0, 50, 0, 0, outcome);
        }
        let found = world.endpoint(0);
        assert!((found.prefill_correction - 1.0).abs() < 1e-9, "{outcome:?}: {found:?}");
        assert_eq!(world.arrive(&Ask::default()).reasons.output_tokens, 256, "nor of lengths");
    }
}

#[test]
fn a_client_that_reads_slowly_does_not_make_its_endpoint_look_slow() {
    let mut world = one(Confidence::Low);
    for _ in 0..20 {
        // Eight streams decode together; all but one of the clients are slow.
        let all: Vec<Pick> = (0..8).map(|_| world.arrive(&ask(100, 100))).collect();
        for pick in &all {
            world.send(pick.request);
            world.step(Event::FirstByte(pick.request));
            world.step(Event::Progress(pick.request, 1));
        }
        for tick in 0..200 {
            world.wait(1_008);
            world.step(Event::Progress(all[0].request, 1));
            if tick % 8 == 7 {
                for slow in &all[1..] {
                    world.step(Event::Progress(slow.request, 1));
                }
            }
        }
        for pick in &all {
            world.end(pick.request, Outcome::Done, usage(100, 201));
        }
    }
    let found = world.endpoint(0).step_correction;
    assert!((0.9..1.2).contains(&found), "{found}");
}

#[test]
fn spans_in_which_a_prompt_was_computed_say_nothing_of_step_times() {
    let mut world = one(Confidence::Low);
    for _ in 0..30 {
        let pick = world.arrive(&ask(100, 100));
        world.send(pick.request);
        world.step(Event::FirstByte(pick.request));
        for _ in 0..20 {
            let other = world.arrive(&ask(10_000, 1));
            world.wait(20_000);
            world.cancel(other.request);
            world.step(Event::Progress(pick.request, 2));
        }
        world.cancel(pick.request);
    }
    assert!((world.endpoint(0).step_correction - 1.0).abs() < 1e-9);
}

#[test]
fn an_answer_in_one_piece_teaches_what_most_of_its_time_was() {
    let whole = |prompt, output| Ask { whole: true, ..ask(prompt, output) };
    for (request, prefill, step) in
        [(whole(50_000, 2), 2.0, 1.0), (whole(10, 500), 1.0, 2.0), (whole(20_000, 20), 1.0, 1.0)]
    {
        let mut world = one(Confidence::Medium);
        for _ in 0..60 {
            let pick = world.arrive(&request);
            world.send(pick.request);
            let (prompt, output) = (request.tokens.unwrap(), request.max_tokens.unwrap());
            world.wait(2 * u64::from(1_000 + prompt) + 2 * 1_001 * u64::from(output));
            world.step(Event::FirstByte(pick.request));
            world.end(pick.request, Outcome::Done, usage(prompt, output));
        }
        let found = world.endpoint(0);
        assert!((found.prefill_correction - prefill).abs() < 0.25, "{request:?} {found:?}");
        assert!((found.step_correction - step).abs() < 0.25, "{request:?} {found:?}");
    }
}

#[test]
fn tokens_that_the_engine_found_in_its_cache_do_not_count_as_speed() {
    let mut world = one(Confidence::Medium);
    for _ in 0..60 {
        let pick = world.arrive(&ask(10_000, 1));
        world.send(pick.request);
        world.wait(1_000 + 1_000 + 1_001);
        world.step(Event::FirstByte(pick.request));
        let found = Usage { cached_tokens: Some(9_000), ..usage(10_000, 1) };
        world.end(pick.request, Outcome::Done, found);
    }
    let found = world.endpoint(0).prefill_correction;
    assert!((0.95..1.05).contains(&found), "{found}");
}

#[test]
fn time_spent_waiting_for_a_place_does_not_count_as_speed() {
    let facts = ReplicaFacts { max_sequences: 1, ..with_confidence(Confidence::Low) };
    let mut world = World::with(PoolConfig::default(), &[facts]);
    for _ in 0..40 {
        let first = world.arrive(&ask(10_000, 100));
        let second = world.arrive(&ask(10_000, 100));
        world.send(second.request);
        world.cancel(first.request);
        world.wait(900_000);
        world.step(Event::FirstByte(second.request));
        world.end(second.request, Outcome::Done, usage(10_000, 1));
    }
    assert!((world.endpoint(0).prefill_correction - 1.0).abs() < 1e-9);
}

#[test]
fn endpoints_of_one_variant_learn_from_each_other_and_count_as_equal_when_they_nearly_are() {
    let mut world = World::new(PoolConfig::default());
    for (name, variant) in [("a", "same"), ("b", "same"), ("c", "other")] {
        world.up(name, variant, Some(with_confidence(Confidence::Low)));
    }
    for round in 0..60 {
        let noise = if round % 2 == 0 { 1.05 } else { 0.98 };
        stream(&mut world, 0, (TTFT as f64 * 3.0 * noise) as u64, 0, 0, Outcome::Done);
    }
    let factor = |at| world.endpoint(at).prefill_correction;
    assert!(factor(1) > 2.5, "never asked, but of the same kind: {}", factor(1));
    assert!((factor(2) - 1.0).abs() < 1e-9);
    assert_eq!(factor(0).to_bits(), factor(1).to_bits(), "a small difference is noise");
}

#[test]
fn what_a_variant_learned_is_believed_no_further_than_an_endpoints_own_confidence() {
    let mut world = World::new(PoolConfig::default());
    world.up("doubted", "v", Some(with_confidence(Confidence::Low)));
    world.up("measured", "v", Some(with_confidence(Confidence::High)));
    for _ in 0..60 {
        stream(&mut world, 0, PREFILL * 8 + LAG, 0, 0, Outcome::Done);
    }
    assert!(world.endpoint(0).prefill_correction > 6.0);
    assert!(world.endpoint(1).prefill_correction <= 2.0);
}

#[test]
fn new_facts_of_an_endpoint_forget_what_was_learned_against_the_old() {
    let mut world = one(Confidence::Low);
    for _ in 0..60 {
        stream(&mut world, 0, TTFT * 4, 0, 0, Outcome::Done);
    }
    assert!(world.endpoint(0).prefill_correction > 3.0);
    world.up("e0", "another", Some(slower(4.0)));
    assert!((world.endpoint(0).prefill_correction - 1.0).abs() < 1e-9);
}

#[test]
fn the_length_of_answers_is_learned_by_flow_then_model_then_guessed() {
    let mut world = one(Confidence::High);
    let mut answer = |flow: u64, tokens: u32| {
        let pick = world.arrive(&Ask { bytes: 400, flow, ..Ask::default() });
        world.end(pick.request, Outcome::Done, usage(100, tokens));
        pick.reasons.output_tokens
    };
    assert_eq!(answer(0, 100), 256, "nothing was seen yet");
    assert_eq!(answer(7, 1_000), 100, "the model's mean");
    for _ in 0..3 {
        answer(7, 1_000);
    }
    assert_eq!(answer(7, 1_000), 1_000, "the flow's own");
    assert!(answer(8, 10) < 1_000, "a new flow has the model's");
    let pick = world.arrive(&Ask { flow: 7, ..ask(100, 50) });
    assert_eq!(pick.reasons.output_tokens, 50, "never more than the client wants");
}

#[test]
fn bytes_in_a_token_are_learned_from_usage_but_not_from_counted_prompts() {
    let mut world = one(Confidence::High);
    assert!((world.pool.status(world.now).bytes_per_token - 4.0).abs() < 1e-9);
    for _ in 0..100 {
        let pick = world.arrive(&Ask { bytes: 3_000, ..ask(3_000, 1) });
        world.end(pick.request, Outcome::Done, usage(3_000, 1));
    }
    assert!((world.pool.status(world.now).bytes_per_token - 4.0).abs() < 1e-9);
    for _ in 0..100 {
        let pick = world.arrive(&Ask { bytes: 3_000, ..Ask::default() });
        world.step(Event::TokensKnown(pick.request, usage(1_000, 0)));
        world.end(pick.request, Outcome::Done, usage(1_000, 1));
    }
    let found = world.pool.status(world.now).bytes_per_token;
    assert!((2.95..3.1).contains(&found), "{found}");
    assert_eq!(world.arrive(&Ask { bytes: 9_000, ..Ask::default() }).prompt_tokens / 100, 29);
}

/// Two endpoints, of which number 0 was slow for a while and is not any more.
fn once_slow() -> World {
    let mut world = World::with(PoolConfig::default(), &[]);
    for name in ["a", "b"] {
        world.up(name, "v", Some(with_confidence(Confidence::Low)));
    }
    for _ in 0..40 {
        stream(&mut world, 0, PREFILL * 4 + LAG, 32, 4_000, Outcome::Done);
        stream(&mut world, 1, PREFILL + LAG, 32, 1_001, Outcome::Done);
    }
    let found = world.endpoint(0);
    assert!(found.prefill_correction > 3.0 && found.step_correction > 3.0, "{found:?}");
    world
}

#[test]
fn the_endpoint_that_was_seen_first_is_not_believed_to_be_unlike_the_others() {
    let mut world = World::with(PoolConfig::default(), &[]);
    for name in ["a", "b"] {
        world.up(name, "v", Some(with_confidence(Confidence::Low)));
    }
    for _ in 0..6 {
        stream(&mut world, 0, PREFILL / 2 + LAG, 0, 0, Outcome::Done);
    }
    let (first, other) = (world.endpoint(0), world.endpoint(1));
    assert!(first.prefill_correction < 0.8, "{first:?}");
    assert_eq!(first.prefill_correction.to_bits(), other.prefill_correction.to_bits());
}

#[test]
fn a_slow_past_is_forgotten_as_others_are_seen_to_be_quick() {
    let mut world = once_slow();
    let before = world.endpoint(0);
    for _ in 0..30 {
        stream(&mut world, 1, PREFILL + LAG, 32, 1_001, Outcome::Done);
    }
    let found = world.endpoint(0);
    assert!(found.prefill_correction > before.prefill_correction * 0.9, "not at once: {found:?}");
    let mut asked = 0;
    while asked < 2_000 {
        let pick = world.arrive(&ask(10_000, 33));
        world.cancel(pick.request);
        if pick.endpoint == EndpointIndex(0) {
            break;
        }
        stream(&mut world, 1, PREFILL + LAG, 32, 1_001, Outcome::Done);
        asked += 1;
    }
    assert!(asked < 600, "it is tried again, though nothing is in its way elsewhere: {asked}");
}

#[test]
fn what_was_learned_stays_while_nobody_is_asked() {
    let mut world = once_slow();
    let before = world.endpoint(0);
    world.wait(3_600_000_000);
    let found = world.endpoint(0);
    assert_eq!(found.prefill_correction.to_bits(), before.prefill_correction.to_bits());
    assert_eq!(found.step_correction.to_bits(), before.step_correction.to_bits());
}
