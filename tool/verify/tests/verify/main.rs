//! Tests of the verifier against images of the real writer.

mod bits;
mod board;
mod doorbells;
mod flipped;
mod fronts;
mod functions;
mod functions_changed;
mod good;
mod handed;
mod hybrid;
mod monitor;
mod mutants;
mod pools;
mod random;
mod random_fronts;
mod shared;
mod support;
mod worlds;
