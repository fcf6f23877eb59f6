//! Placeholder head; see docs.
#![no_std]
