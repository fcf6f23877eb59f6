//! Placeholder head; see docs.
