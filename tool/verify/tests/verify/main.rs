//! Tests of the verifier against images of the real writer.

mod bits;
mod doorbells;
mod good;
mod monitor;
mod mutants;
mod random;
mod shared;
mod support;
