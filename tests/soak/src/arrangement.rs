//! Who shares which core with whom, and by what schedule.

/// What is promised to the victims of an arrangement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// A victim is chosen within the `wake to run` of `check`, which is for a budget in hand, and no victim's ever runs out.
    InHand,
    /// A victim is chosen within the blackout of `check`, whatever the moment.
    Worst,
    /// Nothing about time: every interrupt comes, sooner or later. For several cores on one clock, and for the round robin's
    /// policies that do not isolate.
    Counts,
}

/// An arrangement of the three victims and the attacker.
#[derive(Clone, Copy, Debug)]
pub struct Arrangement {
    /// Its name.
    pub name: &'static str,
    /// What it is, for people.
    pub what: &'static str,
    /// Lines of the schedule of core 0.
    pub(crate) schedule: &'static str,
    /// Other lines of the victims `tick`, `wake` and `woken`.
    pub(crate) victims: [&'static str; 3],
    /// More arguments of the victim `tick`.
    pub(crate) tick_arguments: &'static str,
    /// Other lines of the attacker.
    pub(crate) attacker: &'static str,
    /// Cores that the attacker owns, behind core 0, as far as the board has them; 0 when it shares core 0 with its victims.
    pub own_cores: u32,
    /// What else a random attacker has; the attacks of the list take for granted that nothing of it is there.
    pub extras: Extras,
    /// What is promised.
    pub promise: Promise,
}

/// What a random attacker has beside a doorbell that a victim rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// A virtual UART, with its interrupt, instead of a console ring.
    pub has_uart: bool,
    /// A virtual PCI bus: it is started as Linux is. It has a virtual UART then.
    pub has_pci: bool,
    /// A device of the board whose interrupt is a level: what follows its name in the description, if it has it.
    pub device: Option<&'static str>,
}

const NOTHING: Extras = Extras { has_uart: false, has_pci: false, device: None };
const UART: Extras = Extras { has_uart: true, ..NOTHING };
const PCI: Extras = Extras { has_pci: true, ..UART };
const DEVICE: Extras = Extras { device: Some(""), ..NOTHING };
const UART_AND_DEVICE: Extras = Extras { device: Some(""), ..UART };

const BY_PRIORITY: &str = "kind = \"fixed-priority\"";
/// Each victim has a budget that its ticks do not use up, though those above it may pre-empt it again and again, and it
/// pays for the way in each time.
const BUDGETS: [&str; 3] = [
    "servers = [{ priority = 1, budget = \"200 us\", period = \"1 ms\", chunks = 16 }]",
    "servers = [{ priority = 2, budget = \"250 us\", period = \"2 ms\", chunks = 16 }]",
    "servers = [{ priority = 3, budget = \"150 us\", period = \"2 ms\", chunks = 16 }]",
];

const BELOW: Arrangement = Arrangement {
    name: "below",
    what: "the attacker is less important than its victims and has no limit",
    schedule: BY_PRIORITY,
    victims: BUDGETS,
    tick_arguments: "",
    attacker: "servers = [{ priority = 9 }]",
    own_cores: 0,
    extras: NOTHING,
    promise: Promise::InHand,
};

const fn above(name: &'static str, what: &'static str, attacker: &'static str) -> Arrangement {
    Arrangement { name, what, attacker, ..BELOW }
}

const TURNS: Arrangement = Arrangement {
    name: "turns",
    what: "everybody in turn",
    schedule: "kind = \"round-robin\"\nquantum = \"500 us\"",
    victims: [""; 3],
    attacker: "",
    promise: Promise::Worst,
    ..BELOW
};

const fn own_cores(name: &'static str, own_cores: u32, extras: Extras) -> Arrangement {
    let what = "the attacker has cores of its own";
    Arrangement { name, what, own_cores, extras, attacker: "", promise: Promise::Counts, ..BELOW }
}

impl Arrangement {
    const fn with(self, extras: Extras) -> Self {
        Self { extras, ..self }
    }
}

/// All arrangements. A seed belongs to the one at the place of its remainder, so new ones change what old seeds do.
pub const ARRANGEMENTS: [Arrangement; 16] = [
    BELOW,
    above(
        "below-limited",
        "the attacker is less important than its victims and has a budget",
        "servers = [{ priority = 9, rule = \"sporadic\", budget = \"2 ms\", period = \"5 ms\" }]",
    )
    .with(UART),
    above(
        "above-sporadic",
        "the attacker has a sporadic budget above its victims and continues below them",
        "servers = [{ priority = 0, rule = \"sporadic\", budget = \"100 us\", period = \"5 ms\" }, { priority = 9 }]",
    )
    .with(DEVICE),
    above(
        "above-background",
        "the same by a background priority",
        "servers = [{ priority = 0, rule = \"sporadic\", budget = \"100 us\", period = \"5 ms\", on_empty = \"background\", background_priority = 9 }]",
    )
    .with(Extras { device: Some(", route = \"defer\""), ..NOTHING }),
    above(
        "above-deferrable",
        "the attacker has a deferrable budget above its victims",
        "servers = [{ priority = 0, rule = \"deferrable\", budget = \"100 us\", period = \"5 ms\" }, { priority = 9 }]",
    )
    .with(PCI),
    above(
        "above-polling",
        "the attacker has a polling budget above its victims",
        "servers = [{ priority = 0, rule = \"polling\", budget = \"100 us\", period = \"5 ms\" }, { priority = 9 }]",
    ),
    above(
        "gate",
        "the attacker has a budget above its victims while an interrupt waits for it",
        "servers = [{ priority = 0, rule = \"sporadic\", budget = \"100 us\", period = \"5 ms\", gate = \"interrupt\" }, { priority = 9 }]",
    )
    .with(UART_AND_DEVICE),
    above(
        "gate-returns",
        "the same, and the gate closes when it has ended its interrupt",
        "servers = [{ priority = 0, rule = \"sporadic\", budget = \"100 us\", period = \"5 ms\", gate = \"interrupt\", voluntary_return = true }, { priority = 9 }]",
    )
    .with(Extras { device: Some(", limit = { limit = 4, per = \"10 ms\" }"), ..NOTHING }),
    above(
        "pibs",
        "the attacker has a share above its victims on behalf of a client",
        "servers = [{ rule = \"pibs\", share = \"10 %\", clients = [\"tick\"] }, { priority = 9 }]",
    ),
    Arrangement {
        name: "computing",
        what: "the victim of the timer computes below the attacker, and takes its interrupts behind a gate above it",
        victims: [
            "servers = [{ priority = 1, rule = \"sporadic\", budget = \"100 us\", period = \"1 ms\", gate = \"interrupt\", voluntary_return = true }, { priority = 20 }]",
            BUDGETS[1],
            BUDGETS[2],
        ],
        tick_arguments: "idle=compute",
        attacker: "servers = [{ priority = 9, rule = \"sporadic\", budget = \"2 ms\", period = \"5 ms\" }]",
        promise: Promise::Worst,
        ..BELOW
    },
    Arrangement {
        name: "table",
        what: "each has windows of a time table",
        schedule: "kind = \"cyclic\"\nmajor_frame = \"2 ms\"\nwindows = [\n    \
            { partition = \"tick\", offset = \"0 us\", length = \"300 us\" },\n    \
            { partition = \"attacker\", offset = \"300 us\", length = \"500 us\" },\n    \
            { partition = \"wake\", offset = \"800 us\", length = \"400 us\" },\n    \
            { partition = \"woken\", offset = \"1200 us\", length = \"300 us\" },\n    \
            { partition = \"attacker\", offset = \"1500 us\", length = \"500 us\" },\n]",
        victims: ["servers = [{ priority = 1 }]"; 3],
        tick_arguments: "idle=compute",
        attacker: "servers = [{ priority = 0 }]",
        extras: DEVICE,
        promise: Promise::Worst,
        ..BELOW
    },
    TURNS.with(UART),
    Arrangement {
        name: "recycle",
        what: "everybody in turn, and the attacker's interrupts take the turns of others",
        schedule: "kind = \"round-robin\"\nquantum = \"500 us\"\non_interrupt = \"recycle\"",
        attacker: "route = \"preempt\"",
        extras: UART_AND_DEVICE,
        promise: Promise::Counts,
        ..TURNS
    },
    own_cores("two-cores", 2, UART),
    own_cores("three-cores", 3, DEVICE),
    own_cores("four-cores", 4, UART_AND_DEVICE),
];
