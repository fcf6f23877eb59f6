//! Attacks on the kernel from EL0 by number (`components/hostile`, `components/sweep`), each with what is expected of it (`tests/hostile-kernel`), beside a
//! victim on the same instance. The umpire, in a component of its own, says what came of each.

mod deep;
mod instance;
mod neighbours;
mod passages;
mod peer;
mod ports;
mod random;
mod rings;
mod stranger;
mod subsystems;
mod suite;
mod swarm;
mod sweep;
mod vectors;
