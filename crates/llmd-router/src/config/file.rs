//! Reading `router.yaml`: how much of it, from what kind of file, and where its paths begin.
//!
//! Used by `reload`, at the start, for each change and for `--check`. It never looks at what the
//! text says.

use super::{Config, EndpointTls, Source};
use llmd_discovery::{read_any, read_file_up_to, text};
use std::path::Path;

/// Longest file that is read.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The text of the file at a start: a pipe will do, and is waited for.
pub(crate) fn first_text(path: &Path) -> Result<String, String> {
    read_any(path, MAX_FILE_BYTES).and_then(text)
}

/// The same in a running router, which must not wait.
pub(crate) fn next_text(path: &Path) -> Result<String, String> {
    read_file_up_to(path, MAX_FILE_BYTES).and_then(text)
}

impl Config {
    /// Lets the paths in it begin where the file at `path` is.
    pub(super) fn resolve(&mut self, path: &Path) {
        let folder = path.parent().unwrap_or(Path::new("."));
        if let Some(file) = &mut self.admin_key_file {
            *file = folder.join(&file);
        }
        let ports = [&mut self.listen.tls, &mut self.listen.admin_tls];
        for tls in ports.into_iter().flatten() {
            let files = [Some(&mut tls.cert_file), Some(&mut tls.key_file)];
            for file in files.into_iter().chain([tls.client_ca_file.as_mut()]).flatten() {
                *file = folder.join(&file);
            }
        }
        for model in &mut self.models {
            for tls in model.variants.iter_mut().filter_map(|variant| variant.tls.as_mut()) {
                tls.resolve(folder);
            }
            for source in &mut model.sources {
                match source {
                    Source::File { path } | Source::Process { path } => *path = folder.join(&path),
                    Source::Static { endpoints } => {
                        let tls = endpoints.iter_mut().filter_map(|one| one.tls.as_mut());
                        tls.for_each(|tls| tls.resolve(folder));
                    }
                    Source::Dns(_) => {}
                }
            }
        }
    }
}

impl EndpointTls {
    fn resolve(&mut self, folder: &Path) {
        let files = [&mut self.ca_file, &mut self.cert_file, &mut self.key_file];
        for file in files.into_iter().flatten() {
            *file = folder.join(&file);
        }
    }
}
