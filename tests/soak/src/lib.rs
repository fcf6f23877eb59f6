//! Victims beside an attacker: three guests that live by interrupts alone on a core, and a hostile one on the same core or on
//! others, in every kind of schedule.
//!
//! [`ARRANGEMENTS`] says who shares what; a [`Siege`] is one of them with an attack, its bounds computed by the analysis that
//! `check` prints, and its image; [`watch`] runs along with its machine. `tests/system` does so for every attack of the list
//! and for some hundreds of random seeds, `./x bench soak` for as many seeds as one likes.
#![forbid(unsafe_code)]

mod arrangement;
mod siege;
mod watch;

pub use arrangement::{ARRANGEMENTS, Arrangement, Extras, Promise};
pub use siege::{ATTACKER, Attack, STEPS, Siege, VICTIMS, VictimBounds, arrangement_of};
pub use watch::{Failure, Seen, Words, watch};
