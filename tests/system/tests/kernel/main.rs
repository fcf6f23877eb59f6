//! The real-time kernel: the same bytes on the bare board and as a partition in `mapped`, in `direct` and on a shared core.

mod aborted;
mod bombs;
mod bounded;
mod broken;
mod calls;
mod chaos;
mod described;
mod dma;
mod drivers;
mod faults;
mod figure;
mod flight;
mod floating;
mod given;
mod held;
mod hostile;
mod largest;
mod places;
mod ports;
mod printed;
mod processes;
mod recorded;
mod refused;
mod supervised;
mod time;
mod verified;
mod watched;
mod ways;
mod wires;

use bulkhead_system_tests::kernel::servers;
