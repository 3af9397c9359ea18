//! Source `static`: endpoints as they stand in the configuration.

use crate::{DiscoveryError, Endpoint, Reading, Sink, Source};

/// Endpoints that never change.
#[derive(Debug)]
pub struct StaticSource {
    endpoints: Vec<Endpoint>,
}

impl StaticSource {
    /// Always these.
    pub fn new(endpoints: Vec<Endpoint>) -> Self {
        Self { endpoints }
    }
}

impl Source for StaticSource {
    fn start(self: Box<Self>, sink: Sink) -> Result<(), DiscoveryError> {
        sink.publish(Reading { endpoints: self.endpoints, ..Reading::default() });
        Ok(())
    }
}
