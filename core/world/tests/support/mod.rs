//! Bodies of the fuzz targets: any bytes, and what must hold of them. `tests/hostile.rs` runs them on seeded bytes.

pub(crate) mod calls;

/// A body.
pub(crate) type Target = fn(&[u8]);

/// Every target by name; `fuzz/corpus/<name>` holds its seeds.
#[allow(dead_code)] // A fuzz target names its own body.
pub(crate) const TARGETS: &[(&str, Target)] = &[("world_calls", calls::run)];
