//! What a pool learns from answers: how far off the believed speeds are, how many bytes a
//! token has, how long answers get.
//!
//! Fed by `handlers` from timings and usage of whole, good answers only; read by `forecast`.
//! All values are ratios of decaying sums, so one odd sample moves them little.

use llmd_types::Confidence;

/// Share of the old sums that is kept at each sample: about the last 32 samples count.
const KEPT: f64 = 31.0 / 32.0;
/// How many samples the profile counts for against a variant's own, and the variant against an
/// endpoint's.
const PRIOR: f64 = 3.0;
/// Endpoints of one variant count as equal until they differ by more than this share. Without
/// it noise would send all cold traffic of an idle pool to one of several equal endpoints.
const ALIKE: f64 = 0.1;
/// Rounds (picks, for each endpoint of the pool) without a pick until what was learned begins to
/// fade. What is believed to be slow gets no requests, and so would never be found to be quick
/// again. While nobody is asked, nothing fades.
pub(crate) const FADES_AFTER: u64 = 16;
/// Rounds until it is gone.
const FADED_AFTER: u64 = 128;

/// Observed over predicted, for one kind of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Correction {
    observed: f64,
    predicted: f64,
    /// Of all time: the prior's share only shrinks, until something is forgotten.
    samples: f64,
    /// Worked out at each sample, because picks read it far more often than it changes: the
    /// own ratio's part of [`Self::value`], and the share that is left for the prior.
    own_part: f64,
    prior_share: Option<f64>,
    /// One over the own ratio.
    inverse: f64,
}

impl Correction {
    /// One more sample, of `weight` samples; what is not a time is not taken.
    pub(crate) fn add(&mut self, observed: f64, predicted: f64, bounds: Bounds, weight: f64) {
        if !(observed.is_finite() && predicted.is_finite() && predicted > 0.0) {
            return;
        }
        // A stuck answer counts as the slowest that is believed, not as hours.
        let observed = observed.clamp(predicted * bounds.low, predicted * bounds.high);
        self.observed = self.observed * KEPT + observed * weight;
        self.predicted = self.predicted * KEPT + predicted * weight;
        self.samples += weight;
        self.weigh();
    }

    fn weigh(&mut self) {
        let prior_share = PRIOR / (self.samples + PRIOR);
        self.own_part = (1.0 - prior_share) * self.observed / self.predicted;
        self.inverse = self.predicted / self.observed;
        self.prior_share = Some(prior_share);
    }

    /// The ratio, drawn towards 1 as long as there are few samples, and again the longer nobody
    /// was asked (in rounds): a variant's value.
    pub(crate) fn value(&self, bounds: Bounds, unasked: u64) -> f64 {
        let Some(share) = self.prior_share else { return 1.0 };
        let value = (self.own_part + share).clamp(bounds.low, bounds.high);
        value + (1.0 - value) * (1.0 - left_after(unasked))
    }

    /// An endpoint's value: that of its variant, `shared`, times how far its own ratio is from
    /// the variant's, which counts as equal as long as there are few samples, and where the
    /// difference is small. Its samples are the variant's too: compared with the variant's drawn
    /// value they would count twice, and the endpoint that was seen first look unlike the others.
    pub(crate) fn value_beside(
        &self,
        variant: &Self,
        shared: f64,
        bounds: Bounds,
        unasked: u64,
    ) -> f64 {
        let Some(share) = self.prior_share else { return shared };
        let apart = match variant.prior_share {
            Some(_) => self.own_part * variant.inverse + share,
            None => self.own_part + share,
        };
        let apart = 1.0 + (apart - 1.0) * left_after(unasked);
        let alike = apart <= 1.0 + ALIKE && apart * (1.0 + ALIKE) >= 1.0;
        if alike { shared } else { (shared * apart).clamp(bounds.low, bounds.high) }
    }

    /// It is asked again after so many rounds: what has faded by then is forgotten for good, so
    /// that the next samples count.
    pub(crate) fn asked_again(&mut self, unasked: u64) {
        let left = left_after(unasked);
        if left >= 1.0 || self.prior_share.is_none() {
            return;
        }
        if left <= 0.0 {
            *self = Self::default();
            return;
        }
        self.observed *= left;
        self.predicted *= left;
        self.samples *= left;
        self.weigh();
    }
}

/// The share of what was learned that is left after so many rounds without a pick.
fn left_after(unasked: u64) -> f64 {
    let left = FADED_AFTER.saturating_sub(unasked) as f64 / (FADED_AFTER - FADES_AFTER) as f64;
    left.min(1.0)
}

/// Between which factors a belief may be corrected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl From<Confidence> for Bounds {
    fn from(confidence: Confidence) -> Self {
        match confidence {
            Confidence::High => Self { low: 1.0 / 2.0, high: 2.0 },
            Confidence::Medium => Self { low: 1.0 / 4.0, high: 4.0 },
            Confidence::Low => Self { low: 1.0 / 16.0, high: 16.0 },
        }
    }
}

/// Step times of an endpoint's streams in one stretch of time. Only the quickest counts: a
/// client that reads slowly can make a stream slower than its engine, never faster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepWindow {
    observed: f64,
    predicted: f64,
    streams: u32,
}

impl StepWindow {
    /// Streams after which a window is full.
    const STREAMS: u32 = 8;

    /// A stream's sample; returns the window's own (observed, predicted, weight) once full.
    pub(crate) fn add(&mut self, observed: f64, predicted: f64, over: bool) -> Option<Sample> {
        if self.streams == 0 || observed * self.predicted < self.observed * predicted {
            (self.observed, self.predicted) = (observed, predicted);
        }
        self.streams += 1;
        if self.streams < Self::STREAMS && !over {
            return None;
        }
        // A stream alone may have a slow client: it is believed, but slowly.
        let weight = if self.streams > 1 { 1.0 } else { 0.25 };
        let full = std::mem::take(self);
        Some(Sample { observed: full.observed, predicted: full.predicted, weight })
    }
}

/// What a full window found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) observed: f64,
    pub(crate) predicted: f64,
    pub(crate) weight: f64,
}

/// A mean of late samples, and how many there were (up to a bound).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Mean {
    sum: f64,
    samples: f64,
}

impl Mean {
    pub(crate) fn add(&mut self, sample: u32) {
        self.sum = self.sum * KEPT + f64::from(sample);
        self.samples = self.samples * KEPT + 1.0;
    }

    /// The mean, once there are as many samples as `least`.
    pub(crate) fn value(&self, least: f64) -> Option<u32> {
        (self.samples >= least).then(|| (self.sum / self.samples + 0.5) as u32)
    }
}

/// Flows that are remembered at once; two that meet in a place push each other out.
const FLOWS: usize = 1_024;
/// Answers of a flow after which its own mean is believed.
const FLOW_SAMPLES: f64 = 2.9;
/// Tokens of an answer before any was seen.
const FIRST_GUESS: u32 = 256;
/// Bytes in a token before any usage was seen, and how many bytes that belief weighs.
const FIRST_BYTES: f64 = 4.0;
const FIRST_WEIGHT: f64 = 2_048.0;
/// Bounds of bytes in a token: beyond them a prompt holds something that is not text.
const BYTES_BOUNDS: (f64, f64) = (1.0, 16.0);

/// What the requests of a pool are like.
#[derive(Debug)]
pub(crate) struct Habits {
    flows: Vec<(u64, Mean)>,
    output: Mean,
    uncached: Mean,
    bytes: f64,
    tokens: f64,
}

impl Habits {
    pub(crate) fn new() -> Self {
        let (output, uncached) = (Mean::default(), Mean::default());
        Self { flows: vec![(0, output); FLOWS], output, uncached, bytes: 0.0, tokens: 0.0 }
    }

    /// An answer of `flow` had so many tokens.
    pub(crate) fn answered(&mut self, flow: u64, tokens: u32) {
        self.output.add(tokens);
        if flow == 0 {
            return;
        }
        let place = &mut self.flows[flow as usize % FLOWS];
        if place.0 != flow {
            *place = (flow, Mean::default());
        }
        place.1.add(tokens);
    }

    /// How long an answer of `flow` will be: by the flow, else the model, else a guess.
    pub(crate) fn expected_output(&self, flow: u64) -> u32 {
        let place = &self.flows[flow as usize % FLOWS];
        let of_flow = (flow != 0 && place.0 == flow).then(|| place.1.value(FLOW_SAMPLES)).flatten();
        of_flow.or_else(|| self.output.value(1.0)).unwrap_or(FIRST_GUESS).max(1)
    }

    /// A prompt of so many bytes had so many tokens.
    pub(crate) fn prompt_counted(&mut self, bytes: u32, tokens: u32) {
        if bytes > 0 && tokens > 0 {
            self.bytes = self.bytes * KEPT + f64::from(bytes);
            self.tokens = self.tokens * KEPT + f64::from(tokens);
        }
    }

    pub(crate) fn bytes_per_token(&self) -> f64 {
        let tokens = self.tokens + FIRST_WEIGHT / FIRST_BYTES;
        ((self.bytes + FIRST_WEIGHT) / tokens).clamp(BYTES_BOUNDS.0, BYTES_BOUNDS.1)
    }

    /// A request was placed that needs so many prompt tokens computed.
    pub(crate) fn placed(&mut self, uncached: u32) {
        self.uncached.add(uncached);
    }

    /// Prompt tokens to compute and tokens to generate of a usual request.
    pub(crate) fn usual(&self) -> (u32, u32) {
        (
            self.uncached.value(1.0).unwrap_or(0).max(1),
            self.output.value(1.0).unwrap_or(FIRST_GUESS),
        )
    }
}
