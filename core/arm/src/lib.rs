//! Facts of the Arm architecture, each once: numbers of registers, bits, interrupts and calls, and how they are packed.
//!
//! Whatever reads or writes a register of the architecture takes its place and its bits from here: monitor, emulation, planner,
//! SDK and guests. `tool/verify` does not: what it would share with the writer of an image it could not check, so it states each
//! bit again (`tests/ledger/tests/dependencies.rs` looks at the manifests). Host tests of the monitor also write numbers out
//! where the number is what they assert.
//!
//! Everything is a constant or a `const fn` without state: it costs no instruction that the number itself would not.
//!
//! Manuals, cited as shown:
//!
//! | cited | manual |
//! | --- | --- |
//! | Arm ARM | Architecture Reference Manual for A-profile, DDI 0487I.a; D17.2 lists the system registers by name |
//! | IHI 0069 | Generic Interrupt Controller version 3 and 4, IHI 0069 |
//! | BSA | Base System Architecture, DEN 0094 |
//! | DEN 0022 | Power State Coordination Interface, 1.1 |
//! | DEN 0028 | SMC Calling Convention, 1.1 |
//! | DDI 0183 | PrimeCell UART (PL011), r1p5 |
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod affinity;
pub mod core_type;
pub mod el2;
pub mod exception;
pub mod gic;
mod intid;
mod list_register;
pub mod pl011;
pub mod psci;
pub mod smccc;
pub mod timer;

pub use affinity::{Affinity, SgiRequest};
pub use intid::Intid;
pub use list_register::ListRegister;
