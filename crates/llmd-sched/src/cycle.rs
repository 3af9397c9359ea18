//! One pick: how a request is placed. Start reading here.
//!
//! Called by `handlers` when a request arrives and when it is tried again. Load changes in the
//! same call as the choice, so requests of one burst see each other.

use crate::config::SchedulerKind;
use crate::event::{EndpointIndex, Refusal};
use crate::forecast::Ask;
use crate::load::Charge;
use crate::pool::PoolState;
use crate::request::{Attempt, Request};
use crate::rng::Rng;
use crate::{filters, scorers};
use llmd_types::{Micros, RequestId};

/// Which endpoints the chosen one was compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// Those expected to keep the service level.
    KeepsSlo,
    /// All, because none is expected to keep it.
    MissesSlo,
    /// All, because nothing is promised.
    NoSlo,
    /// The scheduler does not look at expected times.
    #[default]
    NotJudged,
}

impl Tier {
    /// The name in traces and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeepsSlo => "keeps-slo",
            Self::MissesSlo => "misses-slo",
            Self::NoSlo => "no-slo",
            Self::NotJudged => "not-judged",
        }
    }
}

/// Why this endpoint. Expected times are the endpoint's even where the scheduler does not look
/// at them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// Who chose.
    pub scheduler: SchedulerKind,
    /// Which endpoints it was compared with.
    pub tier: Tier,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// Endpoints that could have served the request.
    pub candidates: u32,
    /// Expected time to first token, of it the wait for a place in the engine.
    pub ttft: Micros,
    /// See `ttft`.
    pub wait: Micros,
    /// Expected time between tokens.
    pub itl: Micros,
    /// Expected delay of the requests that are there, summed over them.
    pub delay: Micros,
    /// TTFT, all tokens and the delay: what the default scheduler compares.
    pub finish: Micros,
    /// The least of that among the candidates.
    pub best_finish: Micros,
    /// Tokens that the answer is expected to have.
    pub output_tokens: u32,
    /// Our requests there before this one.
    pub inflight_requests: u32,
    /// Our tokens there before this one: prompts to compute and answers to generate.
    pub inflight_tokens: u64,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The request.
    pub request: RequestId,
    /// Where it goes.
    pub endpoint: EndpointIndex,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Of these, tokens that the endpoint is believed to hold already.
    pub cached_tokens: u32,
    /// Why there.
    pub reasons: Reasons,
}

/// Chooses an endpoint for `request` and puts the request's load on it.
pub(crate) fn pick(
    pool: &mut PoolState,
    id: RequestId,
    request: &mut Request,
    only: Option<EndpointIndex>,
    now: Micros,
    rng: &mut Rng,
) -> Result<Pick, Refusal> {
    // 1. Who may serve it: ready, not tried before, long enough, not unreachable just now.
    match only {
        Some(index) => pool.only(index)?,
        None => filters::filter(pool, request, now)?,
    }
    let candidates = pool.candidates.len() as u32;
    // 2. What each of them holds of its prompt.
    pool.index.lookup(&request.keys, &mut pool.depths);
    // 3. In a pool of thousands, those worth a forecast.
    if only.is_none() && pool.config.scheduler == SchedulerKind::ExpectedFinish {
        pool.shorten_candidates(rng);
    }
    // 4. What would become of it at each.
    let ask = Ask { prompt_tokens: request.prompt_tokens, output: request.output };
    pool.predict(ask, request.prompt_bytes, now);
    // 5. The choice.
    let (place, tier) = match pool.config.scheduler {
        SchedulerKind::ExpectedFinish => scorers::expected_finish(pool, rng),
        SchedulerKind::RoundRobin => scorers::round_robin(pool),
        SchedulerKind::Random => scorers::random(pool, rng),
        SchedulerKind::LeastRequest => scorers::least_request(pool, rng),
        SchedulerKind::LlmdDefault => scorers::llmd_default(pool, rng, ask.prompt_tokens),
    };
    let (index, forecast, cached) =
        (pool.candidates[place], pool.forecasts[place], pool.cached(place));
    let best = pool.forecasts.iter().map(|f| f.finish_us).fold(f64::INFINITY, f64::min);
    // 6. Its reasons, with the load as it was.
    let before = &pool.endpoints[index.at()].load;
    let reasons = Reasons {
        scheduler: pool.config.scheduler,
        tier,
        attempt: request.tried.len() as u32 + 1,
        candidates,
        ttft: Micros::from_f64(forecast.ttft_us),
        wait: Micros::from_f64(forecast.wait_us),
        itl: Micros::from_f64(forecast.itl_us),
        delay: Micros::from_f64(forecast.delay_us),
        finish: Micros::from_f64(forecast.finish_us),
        best_finish: Micros::from_f64(best),
        output_tokens: request.output,
        inflight_requests: before.requests,
        inflight_tokens: before.tokens(),
    };
    // 7. Its load, from now on.
    let uncached = ask.prompt_tokens.saturating_sub(cached).max(1);
    let space = uncached.saturating_add(ask.output);
    let (context, remaining) = (ask.prompt_tokens, ask.output);
    request.charge = Charge { uncached, context, remaining, space, running: false };
    request.attempt = Attempt { sent_at: now, progress_at: now, forecast, ..Attempt::default() };
    pool.place(id, request, index, now);
    Ok(Pick {
        request: id,
        endpoint: index,
        prompt_tokens: ask.prompt_tokens,
        cached_tokens: cached,
        reasons,
    })
}
