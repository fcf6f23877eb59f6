//! Tests of the verifier against images of the real writer.

mod doorbells;
mod good;
mod mutants;
mod random;
mod shared;
mod support;
