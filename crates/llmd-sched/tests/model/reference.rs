//! The scheduler's accounting and health, written once more in the plainest way: sets of
//! requests, lists of results. It predicts who may be picked, never who is.

use llmd_sched::{BreakerState, EndpointState, HealthStatus, Refusal, Resilience, RetryCause, Why};
use llmd_types::{Micros, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// An endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: u8,
    pub(crate) state: EndpointState,
    pub(crate) inflight: BTreeSet<u64>,
    serves: bool,
    /// Which of its lives this is: requests of an earlier one are counted, and not judged by.
    life: u32,
    in_a_row: u32,
    openings: u32,
    open: Option<(u64, Why)>,
    trial: Option<u64>,
    /// Time and whether it failed, of each request since the breaker last opened.
    results: Vec<(u64, bool)>,
    checked_out: bool,
    /// Checks that speak against `checked_out`, without one between that speaks for it.
    checks: u32,
    slow_since: Option<u64>,
}

impl Place {
    fn new(name: u8) -> Self {
        Self {
            name,
            state: EndpointState::Down,
            inflight: BTreeSet::new(),
            serves: false,
            life: 0,
            in_a_row: 0,
            openings: 0,
            open: None,
            trial: None,
            results: Vec::new(),
            checked_out: false,
            checks: 0,
            slow_since: None,
        }
    }

    fn open(&mut self, why: Why, rules: &Resilience, now: u64) {
        let mut span = rules.breaker_open.0;
        for _ in 0..self.openings {
            span = (span * 2).min(1 << 50);
        }
        self.open = Some((now + span.min(rules.breaker_open_max.0), why));
        (self.openings, self.in_a_row, self.trial) = (self.openings + 1, 0, None);
        self.results.clear();
    }

    /// 0 takes part; more is worse.
    fn illness(&self, now: u64) -> u32 {
        match self.open {
            Some((until, Why::Unreachable)) if now < until => 3,
            Some((until, _)) if now < until => 2,
            _ if self.checked_out => 2,
            Some(_) if self.trial.is_some() => 1,
            _ => 0,
        }
    }

    fn slow_share(&self, rules: &Resilience, now: u64) -> Option<f64> {
        let passed = now - self.slow_since?;
        (passed < rules.slow_start.0).then(|| passed as f64 / rules.slow_start.0 as f64)
    }

    /// As status should show it.
    pub(crate) fn health(&self, rules: &Resilience, now: u64) -> HealthStatus {
        let (breaker, mut out) = match self.open {
            None => (BreakerState::Closed, None),
            Some((until, why)) if now < until => {
                (BreakerState::Open, Some((why, Some(Micros(until - now)))))
            }
            Some((_, why)) => (BreakerState::HalfOpen, self.trial.map(|_| (why, None))),
        };
        if self.checked_out {
            out = Some((Why::Checks, None));
        }
        let slow_start = self.slow_share(rules, now);
        let failures_in_a_row = self.in_a_row;
        HealthStatus { out, breaker, failures_in_a_row, slow_start, ..HealthStatus::default() }
    }

    /// It is not back whole.
    pub(crate) fn is_ill(&self) -> bool {
        self.open.is_some() || self.checked_out
    }
}

/// A request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    at: Option<u16>,
    pub(crate) tried: Vec<u16>,
    counted: u32,
    pinned: bool,
    begun: bool,
    life: u32,
}

/// The whole.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) rules: Resilience,
    pub(crate) attempts: u32,
    pub(crate) now: u64,
    pub(crate) places: BTreeMap<u16, Place>,
    pub(crate) requests: BTreeMap<u64, Asked>,
    /// In hundredths of a millionth of a retry.
    budget: u128,
    budget_at: Option<u64>,
    pub(crate) paid: u64,
    pub(crate) unpaid: u64,
}

/// One retry of the budget.
const RETRY: u128 = 100_000_000;

impl Model {
    pub(crate) fn new(rules: Resilience, attempts: u32) -> Self {
        Self {
            rules,
            attempts,
            now: 0,
            places: BTreeMap::new(),
            requests: BTreeMap::new(),
            budget: 0,
            budget_at: None,
            paid: 0,
            unpaid: 0,
        }
    }

    fn place(&mut self, at: u16) -> &mut Place {
        self.places.get_mut(&at).unwrap()
    }

    fn present(&mut self, at: u16) -> Option<&mut Place> {
        self.places.get_mut(&at).filter(|place| place.state != EndpointState::Down)
    }

    fn earn(&mut self, requests: u128) {
        let rules = self.rules;
        let (percent, second) =
            (u128::from(rules.retry_budget_percent), u128::from(rules.retry_budget_min_per_second));
        let passed = self.budget_at.map_or(1_000_000, |at| self.now - at);
        self.budget_at = Some(self.now);
        self.budget += requests * percent * RETRY / 100 + u128::from(passed) * second * 100;
        self.budget = self.budget.min(percent * RETRY * 10 + second * RETRY * 10);
    }

    pub(crate) fn budget_left(&mut self) -> u64 {
        let before = (self.budget, self.budget_at);
        self.earn(0);
        let left = (self.budget / RETRY) as u64;
        (self.budget, self.budget_at) = before;
        left
    }

    /// Who may be picked, or the refusal.
    fn allowed(&self, tried: &[u16]) -> Result<Vec<u16>, Refusal> {
        let ready = |place: &Place| place.state == EndpointState::Ready;
        let left: Vec<_> =
            self.places.iter().filter(|(at, p)| ready(p) && !tried.contains(at)).collect();
        let Some(best) = left.iter().map(|(_, place)| place.illness(self.now)).min() else {
            let any = self.places.values().any(ready);
            return Err(if any { Refusal::AttemptsUsed } else { Refusal::NoEndpoint });
        };
        let slow = |place: &Place| place.slow_share(&self.rules, self.now);
        let whole: Vec<usize> = (self.places.values())
            .filter(|p| ready(p) && p.open.is_none() && !p.checked_out && slow(p).is_none())
            .map(|place| place.inflight.len())
            .collect();
        let mean = whole.iter().sum::<usize>() as f64 / whole.len().max(1) as f64;
        let best: Vec<_> =
            left.into_iter().filter(|(_, place)| place.illness(self.now) == best).collect();
        let within: Vec<u16> = (best.iter())
            .filter(|(_, p)| slow(p).is_none_or(|s| (p.inflight.len() as f64) < 1.0 + s * mean))
            .map(|(at, _)| **at)
            .collect();
        let all = best.iter().map(|(at, _)| **at).collect();
        Ok(if within.is_empty() { all } else { within })
    }

    /// A request arrives: who may get it.
    pub(crate) fn arrive(&mut self, id: u64, only: Option<u16>) -> Result<Vec<u16>, Refusal> {
        self.end(id);
        self.earn(1);
        self.requests.insert(id, Asked { pinned: only.is_some(), ..Asked::default() });
        match only {
            Some(at) if self.present(at).is_some() => Ok(vec![at]),
            Some(_) => Err(Refusal::UnknownEndpoint),
            None => self.allowed(&[]),
        }
    }

    /// It was placed there; `None`: it was refused.
    pub(crate) fn placed(&mut self, id: u64, at: Option<u16>) {
        let Some(at) = at else { return drop(self.requests.remove(&id)) };
        let now = self.now;
        let request = self.requests.get_mut(&id).unwrap();
        request.tried.push(at);
        (request.at, request.begun) = (Some(at), false);
        let pinned = request.pinned;
        let place = self.place(at);
        assert!(place.inflight.insert(id));
        place.serves |= !pinned;
        let life = place.life;
        if place.trial.is_none() && place.open.is_some_and(|(until, _)| now >= until) {
            place.trial = Some(id);
        }
        self.requests.get_mut(&id).unwrap().life = life;
    }

    fn end(&mut self, id: u64) {
        if let Some(at) = self.requests.remove(&id).and_then(|request| request.at) {
            self.leave(id, at);
        }
    }

    fn leave(&mut self, id: u64, at: u16) {
        let place = self.place(at);
        assert!(place.inflight.remove(&id));
        place.trial = place.trial.filter(|trial| *trial != id);
    }

    /// Where it is, unless that left since.
    fn judged(&self, id: u64) -> Option<u16> {
        let request = self.requests.get(&id)?;
        request.at.filter(|at| self.places[at].life == request.life)
    }

    fn failed(&mut self, id: u64, at: u16, unreachable: bool) {
        let (rules, now) = (self.rules, self.now);
        let place = self.place(at);
        place.results.push((now, true));
        place.in_a_row += 1;
        let on = rules.breaker_failures > 0;
        match place.open {
            Some((_, why)) if place.trial == Some(id) => {
                place.open(if unreachable { Why::Unreachable } else { why }, &rules, now);
            }
            None if on && unreachable => place.open(Why::Unreachable, &rules, now),
            None if on && place.in_a_row >= rules.breaker_failures => {
                place.open(Why::FailuresInARow, &rules, now);
            }
            _ => {}
        }
        if place.open.is_some() || rules.ejection_failure_percent == 0 {
            return;
        }
        let number = |at: u64| at / (rules.ejection_window.0 / 5).max(1);
        let late: Vec<bool> = (place.results.iter())
            .filter(|(at, _)| number(*at) + 5 > number(now))
            .map(|(_, failed)| *failed)
            .collect();
        let failures = late.iter().filter(|failed| **failed).count();
        let enough = late.len() >= rules.ejection_min_requests as usize;
        if !enough || failures * 100 < late.len() * rules.ejection_failure_percent as usize {
            return;
        }
        let ready = || self.places.values().filter(|p| p.state == EndpointState::Ready);
        let out = ready().filter(|p| matches!(p.open, Some((_, Why::FailureShare)))).count();
        if (out + 1) * 100 <= ready().count() * rules.ejection_max_percent as usize {
            self.place(at).open(Why::FailureShare, &rules, now);
        }
    }

    fn proved(&mut self, id: u64, at: u16) {
        let now = self.now;
        let place = self.place(at);
        let Some((_, why)) = place.open else { return };
        let trial = place.trial == Some(id);
        if trial {
            place.slow_since = Some(now);
        }
        if trial || why == Why::Unreachable {
            (place.open, place.trial, place.in_a_row) = (None, None, 0);
        }
    }

    pub(crate) fn first_byte(&mut self, id: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        let (Some(at), false) = (request.at, request.begun) else { return };
        request.begun = true;
        if self.judged(id).is_some() {
            self.proved(id, at);
        }
    }

    pub(crate) fn done(&mut self, id: u64, outcome: Outcome) {
        match (self.judged(id), outcome) {
            (Some(at), Outcome::Done | Outcome::Refused) => {
                let now = self.now;
                self.place(at).results.push((now, false));
                self.place(at).in_a_row = 0;
                self.proved(id, at);
                if self.place(at).open.is_none() {
                    self.place(at).openings = 0;
                }
            }
            (Some(at), Outcome::Failed | Outcome::Lost) => self.failed(id, at, false),
            _ => {}
        }
        self.end(id);
    }

    /// `None`: nobody knows it.
    pub(crate) fn retry(
        &mut self,
        id: u64,
        cause: RetryCause,
    ) -> Option<Result<Vec<u16>, Refusal>> {
        let at = self.requests.get(&id)?.at;
        if let Some(at) = self.judged(id) {
            self.failed(id, at, cause == RetryCause::Unreachable);
        }
        if let Some(at) = at {
            self.leave(id, at);
        }
        let request = self.requests.get_mut(&id)?;
        request.at = None;
        let draws = cause == RetryCause::Unserved;
        request.counted += u32::from(draws);
        let request = request.clone();
        if request.pinned || request.counted >= self.attempts.max(1) {
            return Some(Err(Refusal::AttemptsUsed));
        }
        if draws {
            self.earn(0);
            if self.budget < RETRY {
                self.unpaid += 1;
                return Some(Err(Refusal::RetryBudgetUsed));
            }
        }
        let allowed = self.allowed(&request.tried);
        if allowed.is_ok() && draws {
            self.budget -= RETRY;
            self.paid += 1;
        }
        Some(allowed)
    }

    pub(crate) fn check(&mut self, at: u16, good: bool) {
        let (rules, now) = (self.rules, self.now);
        let Some(place) = self.present(at) else { return };
        if let Some((until, Why::Unreachable)) = &mut place.open
            && good
        {
            *until = now.min(*until);
        }
        let against = good == place.checked_out;
        place.checks = if against { place.checks + 1 } else { 0 };
        let needed = if good { rules.check_successes.max(1) } else { rules.check_failures };
        if against && needed > 0 && place.checks >= needed {
            (place.checked_out, place.checks) = (!good, 0);
            if good {
                place.slow_since = Some(now);
            }
        }
    }

    /// An endpoint got this number.
    pub(crate) fn joined(&mut self, name: u8, at: u16) {
        let known = self.places.iter().find(|(_, place)| place.name == name).map(|(at, _)| *at);
        assert!(known.is_none_or(|known| known == at), "{name} was {known:?} and is {at}");
        let others = |place: &Place| place.state == EndpointState::Ready && place.serves;
        let others_serve = self.places.values().any(others);
        let held = self.requests.values().any(|request| request.tried.contains(&at));
        let now = self.now;
        let place = self.places.entry(at).or_insert_with(|| Place::new(name));
        if place.name != name {
            assert!(!held && place.state == EndpointState::Down, "{at} was not free");
            *place = Place::new(name);
        }
        if place.state == EndpointState::Down && others_serve {
            place.slow_since = Some(now);
        }
        place.state = EndpointState::Ready;
    }

    pub(crate) fn drain(&mut self, at: u16) {
        if let Some(place) = self.present(at) {
            place.state = EndpointState::Draining;
        }
    }

    pub(crate) fn down(&mut self, at: u16) {
        if let Some(place) = self.present(at) {
            let inflight = std::mem::take(&mut place.inflight);
            *place = Place { inflight, life: place.life + 1, ..Place::new(place.name) };
        }
    }

    pub(crate) fn configure(&mut self, rules: Resilience, attempts: u32) {
        self.attempts = attempts;
        if self.rules == rules {
            return;
        }
        self.earn(0);
        self.rules = rules;
        for place in self.places.values_mut() {
            place.results.clear();
            if rules.check_failures == 0 {
                (place.checked_out, place.checks) = (false, 0);
            }
            let off = match place.open {
                Some((_, Why::FailureShare)) => rules.ejection_failure_percent == 0,
                Some(_) => rules.breaker_failures == 0,
                None => false,
            };
            if off {
                (place.open, place.trial, place.openings) = (None, None, 0);
            }
        }
    }
}
