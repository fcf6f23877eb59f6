//! What differs between the configurations of the program: tables and ceilings. Those of `dual` are beside what is common; here are those
//! of `multi`, for one to four cores (SG-13).

use crate::branches::{BRANCHES, Branch, ROWS, Scenario, direction};
use crate::program::Program;
use crate::promises::{
    EXCEPTION_RETURNS, Kind, MOST_BRANCHES, MOST_BYTES, MOST_PATH_4, MOST_PATH_5, MOST_SKIP, MOST_UNPADDED_BYTES,
    PATHS, Path, SECURE_CONFIGURATIONS, path,
};
use crate::ways::{PARKED, WOKEN};
use bulkhead_world::control::{Reason, SCR_NON_SECURE, SCR_SECURE};

/// Most bytes of `multi`, padding counted.
pub const MOST_BYTES_OF_CORES: u64 = 3_072;
/// Most conditional branches of `multi` at run time.
pub const MOST_BRANCHES_OF_CORES: usize = 10;
/// Most instructions of path 2 in `multi`, which asks for the role of the core.
pub const MOST_PATH_2_OF_CORES: u64 = 120;
/// Most instructions from a kick's interrupt to the vector of EL2.
pub const MOST_KICK: u64 = 24;

/// A configuration of the program.
#[derive(Debug)]
pub struct Configuration {
    /// Its name.
    pub name: &'static str,
    /// Its conditional branches.
    pub branches: &'static [Branch],
    /// The scenarios in which their directions are seen.
    pub scenarios: &'static [Scenario],
    /// Its ways.
    pub paths: &'static [Path],
    /// Labels behind which an ERET stands, one each.
    pub exception_returns: &'static [&'static str],
    /// Labels behind which SCR_EL3 is written, and with what, in the order of the text.
    pub secure_configurations: &'static [(&'static str, u64)],
    /// Most bytes, padding counted.
    pub most_bytes: u64,
    /// Most bytes without padding and with both contexts of a core.
    pub most_unpadded_bytes: u64,
    /// Most conditional branches at run time.
    pub most_branches: usize,
}

/// One core.
pub static DUAL: Configuration = Configuration {
    name: "dual",
    branches: BRANCHES,
    scenarios: Scenario::DUAL,
    paths: PATHS,
    exception_returns: EXCEPTION_RETURNS,
    secure_configurations: SECURE_CONFIGURATIONS,
    most_bytes: MOST_BYTES,
    most_unpadded_bytes: MOST_UNPADDED_BYTES,
    most_branches: MOST_BRANCHES,
};

/// One to four cores.
pub static MULTI: Configuration = Configuration {
    name: "multi",
    branches: BRANCHES_OF_CORES,
    scenarios: Scenario::MULTI,
    paths: PATHS_OF_CORES,
    exception_returns: &["reset", "go_on", "load_upper", "group_0"],
    secure_configurations: &[
        ("reset_non_secure", SCR_NON_SECURE),
        ("reset_non_secure", SCR_SECURE),
        ("slot 0x400", SCR_NON_SECURE),
        ("to_secure", SCR_SECURE),
        (PARKED, SCR_NON_SECURE),
    ],
    most_bytes: MOST_BYTES_OF_CORES,
    // There is no other way of counting than the first.
    most_unpadded_bytes: u64::MAX,
    most_branches: MOST_BRANCHES_OF_CORES,
};

impl Configuration {
    /// That of a program: cores without a world wait in `multi` alone.
    #[must_use]
    pub fn of(program: &Program) -> &'static Self {
        if program.address(PARKED).is_some() { &MULTI } else { &DUAL }
    }
}

const SGI: &[&str] = &["icc_sgi0r_el1"];
const TIMER: &[&str] = &["cntps_cval_el1", "cntps_ctl_el1"];

/// Every way of `multi`. The first row whose label a way passes is its own.
static PATHS_OF_CORES: &[Path] = &[
    path("2", 0x500, "to_secure", Kind::ToSecure(Reason::Interrupt), Some(MOST_PATH_2_OF_CORES)),
    path("4", 0x400, "load_non_secure", Kind::ToNonSecure, Some(MOST_PATH_4)),
    path("5", 0x400, "to_secure", Kind::ToSecure(Reason::Call), Some(MOST_PATH_5)),
    path("skip", 0x400, "skip", Kind::Skip, Some(MOST_SKIP)),
    path("reset", 0x400, "reset_asked", Kind::Reset, None),
    path("kick of EL2", 0x500, "retry", Kind::Again, None),
    path("kick", 0x500, "group_0", Kind::Kick, Some(MOST_KICK)),
    path("CPU_ON, AFFINITY_INFO", 0x400, "targets", Kind::Answer { writes: SGI, lines: true }, None),
    path("watch", 0x400, "watch", Kind::Answer { writes: TIMER, lines: false }, None),
    path("end", 0x400, "ends", Kind::End, None),
    path("call of kick, or of nothing", 0x400, "send", Kind::Answer { writes: SGI, lines: false }, None),
    path("begin", WOKEN, "load_non_secure", Kind::Begin, None),
    path("woken", WOKEN, PARKED, Kind::Nothing, None),
    path("fault", 0x200, "park", Kind::Fault, None),
    path("fault, IRQ in EL3", 0x280, "park", Kind::Fault, None),
    path("fault, SError in EL3", 0x380, "park", Kind::Fault, None),
    path("fault, IRQ from below", 0x480, "park", Kind::Fault, None),
    path("fault, SError from below", 0x580, "park", Kind::Fault, None),
];

/// A branch that `multi` alone has, both of whose directions are seen in [`Scenario::Cores`].
const fn of_cores(
    (label, number): (&'static str, usize),
    (form, target): (&'static str, &'static str),
    decides: &'static str,
    taken: &'static str,
    not_taken: &'static str,
) -> Branch {
    Branch {
        label,
        number,
        form,
        target,
        is_boot: false,
        decides,
        taken: direction(taken, Scenario::Cores),
        not_taken: direction(not_taken, Scenario::Cores),
    }
}

/// Every conditional branch of `multi`.
static BRANCHES_OF_CORES: &[Branch] = &[
    Branch { target: "other_core", taken: direction("on every other core", Scenario::Cores), ..ROWS[0] },
    Branch {
        label: "other_core",
        number: 0,
        form: "b.hi",
        target: "park",
        is_boot: true,
        decides: "whether there is room for the core",
        taken: direction("on a fifth core", Scenario::FifthCore),
        not_taken: direction("on the second to the fourth", Scenario::Cores),
    },
    ROWS[1],
    ROWS[2],
    ROWS[3],
    ROWS[4],
    ROWS[5],
    of_cores(
        ("slot 0x500", 0),
        ("cbz", "to_secure"),
        "what the core has (TPIDR_EL3)",
        "the payload: path 2",
        "no payload: it is a kick",
    ),
    of_cores(
        ("group_0", 0),
        ("b.eq", "retry"),
        "what was interrupted (SPSR_EL3.M)",
        "EL2, which cannot be kicked yet",
        "what is below EL2",
    ),
    ROWS[6],
    of_cores(
        ("from_non_secure", 1),
        ("b.ne", "calls"),
        "who answers a call (x0, TPIDR_EL3)",
        "EL3, what concerns cores, and everything on one without a payload",
        "the payload: path 5",
    ),
    of_cores(
        ("calls", 0),
        ("b.ls", "targets"),
        "whether it is a call of PSCI about another core",
        "CPU_ON or AFFINITY_INFO",
        "anything else",
    ),
    of_cores(
        ("calls", 1),
        ("tbnz", "ends"),
        "whether it ends a world",
        "CPU_OFF, SYSTEM_OFF, SYSTEM_RESET",
        "anything else",
    ),
    of_cores(
        ("calls", 2),
        ("b.eq", "watch"),
        "whether it is a watch of EL2",
        "a watch",
        "a kick, or no call that there is",
    ),
    of_cores(
        (PARKED, 0),
        ("cbz", PARKED),
        "whether somebody has asked for a start of the core",
        "nobody: a kick of a core that is off",
        "somebody: it begins",
    ),
];
