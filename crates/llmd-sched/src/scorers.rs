//! How candidates are compared. Called by `cycle` after the forecasts were made.
//!
//! - `expected_finish`: the default, by tier, objective and expected finish
//! - `llmd_default`: llm-d's queue, KV usage and prefix scorers with weights 2, 2, 3
//! - `least_request`, `round_robin`, `random`: what other routers do, to compare with

use crate::cycle::Tier;
use crate::event::EndpointIndex;
use crate::pool::PoolState;
use crate::rng::Rng;
use llmd_types::{Micros, Objective};

/// A choice among `pool.candidates`: its place there, and its tier.
pub(crate) type Choice = (usize, Tier);

/// Where no service level bounds it, saving money may make a request finish so many times
/// later than it could; without a bound the cheapest endpoint would get all and drown.
const PATIENCE: f64 = 4.0;

/// Tier 1 are the candidates that keep the service level, chosen by objective; if none does,
/// the earliest finish is chosen (tier 2).
pub(crate) fn expected_finish(pool: &PoolState, rng: &mut Rng) -> Choice {
    let forecasts = &pool.forecasts;
    let keeps = |limit: Option<Micros>, us: f64| limit.is_none_or(|limit| us <= limit.as_f64());
    let slo = pool.config.slo;
    let promised = slo.ttft_us.is_some() || slo.itl_us.is_some();
    let soonest = forecasts.iter().map(|f| f.finish_us).fold(f64::INFINITY, f64::min);
    let saves = pool.config.objective != Objective::Latency;
    let in_tier = |at: usize| {
        let f = &forecasts[at];
        keeps(slo.ttft_us, f.ttft_us)
            && keeps(slo.itl_us, f.itl_us)
            && (promised || !saves || f.finish_us <= soonest * PATIENCE)
    };
    let tier = match (0..forecasts.len()).any(in_tier) {
        true if promised => Tier::KeepsSlo,
        true => Tier::NoSlo,
        false => Tier::MissesSlo,
    };
    // A candidate without a price costs what the dearest does; if none has one, time decides.
    let dearest = forecasts.iter().map(|f| f.cost).fold(-1.0, f64::max);
    let cost = |at: usize| if forecasts[at].cost < 0.0 { dearest } else { forecasts[at].cost };
    let cheapest = (0..forecasts.len()).map(cost).fold(f64::INFINITY, f64::min).max(1e-9);
    let badness = |at: usize| {
        let finish = forecasts[at].finish_us;
        match pool.config.objective {
            _ if tier == Tier::MissesSlo || dearest < 0.0 => finish,
            Objective::Latency => finish,
            Objective::Cost => cost(at),
            Objective::Balanced => finish / soonest + cost(at) / cheapest,
        }
    };
    let eligible = |at: &usize| tier == Tier::MissesSlo || in_tier(*at);
    (least(pool, rng, (0..forecasts.len()).filter(eligible), badness), tier)
}

/// The candidate with the least `badness`. Equal ones are taken in turn (the one picked longest
/// ago), so that requests of an idle pool, and with them new prefixes, are spread.
fn least(
    pool: &PoolState,
    rng: &mut Rng,
    places: impl Iterator<Item = usize>,
    badness: impl Fn(usize) -> f64,
) -> usize {
    let (mut best, mut best_badness, mut best_turn, mut equals) = (0, f64::INFINITY, u64::MAX, 0);
    for place in places {
        let (found, turn) = (badness(place), pool.turn(place));
        let better = found < best_badness || (found <= best_badness && turn < best_turn);
        let equal = found <= best_badness && turn == best_turn && !better;
        equals = if better { 1 } else { equals + usize::from(equal) };
        if better || (equal && rng.below(equals) == 0) {
            (best, best_badness, best_turn) = (place, found, turn);
        }
    }
    best
}

/// The fewest of our requests in flight, random among equals.
pub(crate) fn least_request(pool: &PoolState, rng: &mut Rng) -> Choice {
    (highest(pool, rng, |at| -f64::from(pool.candidate(at).load.requests)), Tier::NotJudged)
}

/// The next one behind the last choice.
pub(crate) fn round_robin(pool: &mut PoolState) -> Choice {
    let next = pool.candidates.iter().position(|index| *index > pool.cursor).unwrap_or(0);
    pool.cursor = pool.candidates.get(next).copied().unwrap_or(EndpointIndex(0));
    (next, Tier::NotJudged)
}

/// Any of them.
pub(crate) fn random(pool: &PoolState, rng: &mut Rng) -> Choice {
    (rng.below(pool.candidates.len()), Tier::NotJudged)
}

/// llm-d's default profile: `queue-scorer` 2, `kv-cache-utilization-scorer` 2 and
/// `prefix-cache-scorer` 3 (matched share of the prompt), then `max-score-picker`.
///
/// Where an endpoint does not report a signal, our own count stands in for it: requests that
/// wait there, KV space that we fill.
pub(crate) fn llmd_default(pool: &PoolState, rng: &mut Rng, prompt_tokens: u32) -> Choice {
    let queue = |at: usize| {
        let endpoint = pool.candidate(at);
        let told = endpoint.reported.and_then(|reported| reported.load.waiting);
        told.unwrap_or_else(|| endpoint.load.waiting())
    };
    let places = 0..pool.candidates.len();
    let (low, high) =
        places.fold((u32::MAX, 0), |(low, high), at| (low.min(queue(at)), high.max(queue(at))));
    let score = |at: usize| {
        let endpoint = pool.candidate(at);
        let spread = f64::from(high.saturating_sub(low));
        let queue_score =
            if high == low { 1.0 } else { f64::from(high.saturating_sub(queue(at))) / spread };
        let told = endpoint.reported.and_then(|reported| reported.load.kv_usage);
        let ours = endpoint.load.space as f64 / endpoint.facts.kv_tokens as f64;
        let kv_score = (1.0 - told.unwrap_or(ours)).clamp(0.0, 1.0);
        let matched = f64::from(pool.cached(at)) / f64::from(prompt_tokens.max(1));
        2.0 * queue_score + 2.0 * kv_score + 3.0 * matched.clamp(0.0, 1.0)
    };
    (highest(pool, rng, score), Tier::NotJudged)
}

/// The highest score, random among equals.
fn highest(pool: &PoolState, rng: &mut Rng, score: impl Fn(usize) -> f64) -> usize {
    let (mut best, mut best_score, mut equals) = (0, f64::NEG_INFINITY, 0);
    for place in 0..pool.candidates.len() {
        let found = score(place);
        equals = if found > best_score { 1 } else { equals + usize::from(found >= best_score) };
        if found > best_score || (found >= best_score && rng.below(equals) == 0) {
            (best, best_score) = (place, found);
        }
    }
    best
}
