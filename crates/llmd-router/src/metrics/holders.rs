//! Series end with what they count: a model, a variant or an endpoint that is gone leaves none.
//!
//! Used by `metrics` alone. Whoever has the handles of some series has a [`Hold`] with them, also
//! a request that outlives its model's configuration; with the last hold the series go. Models
//! may come and go without end, and neither memory nor the page grows with them.

use super::{CodeLabel, EndpointLabel, Metrics, ModelLabel, RetryLabel, TokenLabel, VariantLabel};
use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};

/// What a request may end with, as far as HTTP goes.
const STATUSES: RangeInclusive<u16> = 100..=999;

/// A model, a variant of it, an endpoint of that; `None` where it is about the whole.
type Key = (String, Option<String>, Option<String>);

/// How many hold each.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders(Arc<Mutex<HashMap<Key, usize>>>);

/// One holder of some series.
pub(crate) struct Hold {
    holders: Holders,
    key: Key,
    forget: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Hold {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Hold").field(&self.key).finish()
    }
}

impl Holders {
    /// One more; asked for before the series are. `forget` removes them.
    fn hold(&self, key: Key, forget: impl Fn() + Send + Sync + 'static) -> Arc<Hold> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(key.clone()).or_default() += 1;
        Arc::new(Hold { holders: self.clone(), key, forget: Box::new(forget) })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Locked until the series are gone: who holds them next makes them anew.
        let mut counts = self.holders.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
                (self.forget)();
            }
        }
    }
}

impl Metrics {
    /// Of a model as a whole.
    pub(super) fn hold_model(&self, model: &str) -> Arc<Hold> {
        let label = ModelLabel { model: model.into() };
        let (codes, retries) = (self.codes.clone(), self.retries.clone());
        let (duration, stream_errors) = (self.duration.clone(), self.stream_errors.clone());
        self.holders.hold((model.into(), None, None), move || {
            let model = || label.model.clone();
            for code in STATUSES {
                codes.remove(&CodeLabel { model: model(), code });
            }
            for stream in ["false", "true"] {
                retries.remove(&RetryLabel { model: model(), stream });
            }
            duration.remove(&label);
            stream_errors.remove(&label);
        })
    }

    /// Of a variant.
    pub(super) fn hold_variant(&self, model: &str, variant: &str) -> Arc<Hold> {
        let label = VariantLabel { model: model.into(), variant: variant.into() };
        let counters = [self.picks.clone(), self.prefix_hit_tokens.clone()];
        let histograms = [self.ttft.clone(), self.itl.clone()];
        let tokens = self.tokens.clone();
        self.holders.hold((model.into(), Some(variant.into()), None), move || {
            for family in &counters {
                family.remove(&label);
            }
            for family in &histograms {
                family.remove(&label);
            }
            for direction in ["in", "out"] {
                let VariantLabel { model, variant } = label.clone();
                tokens.remove(&TokenLabel { model, variant, direction });
            }
        })
    }

    /// Of an endpoint.
    pub(super) fn hold_endpoint(&self, endpoint: &EndpointLabel) -> Arc<Hold> {
        let EndpointLabel { model, endpoint: name, variant } = endpoint.clone();
        let (label, failures) = (endpoint.clone(), self.scrape_failures.clone());
        self.holders.hold((model, Some(variant), Some(name)), move || {
            failures.remove(&label);
        })
    }
}
