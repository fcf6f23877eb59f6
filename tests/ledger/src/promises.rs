//! What this project promises: requirements that must have a test, in short words of their own.

/// A requirement that this part of the project promises.
pub struct Requirement {
    /// Identifier.
    pub id: &'static str,
    /// What it asks for.
    pub text: &'static str,
}

/// Requirements that came together.
pub struct Part {
    /// Heading of its table.
    pub title: &'static str,
    /// In the order of the table.
    pub requirements: &'static [Requirement],
}

const fn requirement(id: &'static str, text: &'static str) -> Requirement {
    Requirement { id, text }
}

/// Every part. Deviations stand in the design records named in the texts.
pub const PARTS: &[Part] =
    &[Part { title: "Foundation", requirements: FOUNDATION }, Part { title: "Time as a resource", requirements: TIME }];

/// Requirements that no test shows, with the reason. A row that has a test must go from here.
pub const WITHOUT_TEST: &[(&str, &str)] = &[];

/// What needs no shared core.
const FOUNDATION: &[Requirement] = &[
    requirement(
        "QV-1",
        "A partition owns cores, a private range of RAM, devices, and its guest; nothing of a guest is shared.",
    ),
    requirement("QV-2", "One monitor per core; it always resumes the same guest and never switches stage-2 roots."),
    requirement("QV-3", "Size of the monitor and of the tables is small, measured and published."),
    requirement(
        "QV-5",
        "No exit in steady state, by counters (holds in `direct`; `mapped` pays one exit per interrupt, record 0003).",
    ),
    requirement("QV-6", "Exits happen for boot, faults, channels and recovery only (with the same deviation)."),
    requirement("QV-7", "Stage 2 gives read, write and execute per 4 KiB page; everything is private by default."),
    requirement("QV-8", "Monitor memory and translation tables are in no guest's map."),
    requirement(
        "QV-9",
        "An access outside the map reaches the local monitor with address, kind, program counter and syndrome; others do not notice.",
    ),
    requirement("QV-12", "Interrupts of a device go to its partition (one owner per interrupt, record 0004)."),
    requirement("QV-13", "What a guest may not see or change is denied: reads look like absence, writes are dropped."),
    requirement(
        "QV-16",
        "Interrupt mode is a choice per partition; a `mapped` guest cannot signal cores outside its partition.",
    ),
    requirement("QV-50", "Channel pages are mapped into the partitions named and into no other."),
    requirement("QV-51", "A status word at each end; the receiver may poll; a doorbell is optional."),
    requirement(
        "QV-52",
        "Ends of a channel have rates of their own; what one costs the other is bounded (by a core each, and the limiter).",
    ),
    requirement("QV-53", "Damage to a channel harms its two ends at most; messages carry sequence and checksum."),
    requirement("QV-70", "A fault is detected: stage-2 fault, or a call of the guest."),
    requirement("QV-74", "A partition restarts without a reboot and others do not change."),
    requirement("MZ-1", "The same guest binary runs with and without Bulkhead."),
    requirement(
        "MZ-2",
        "An interrupt of the running owner enters the guest without the monitor (in `direct`, record 0003).",
    ),
    requirement("MZ-3", "A passed-through device has one user and is accessed without exits."),
    requirement("MZ-4", "The guest's timer interrupt needs no monitor (in `direct`, record 0003)."),
    requirement("SG-60", "A managing partition watches, suspends, resumes and restarts another one."),
    requirement(
        "SG-61",
        "Heartbeat, progress without cooperation, and detection of fault, silence, power-off and reset.",
    ),
    requirement(
        "SG-62",
        "Restart: stop, quiet the interrupts, reload from a protected copy, check it, reset registers, go on.",
    ),
];

/// Shared cores: requirements, then experiments.
const TIME: &[Requirement] = &[
    requirement(
        "QV-22",
        "A vCPU without budget runs in the background at most, below all that have some, and is not charged for it.",
    ),
    requirement(
        "QV-23",
        "No periodic tick: the timer is armed once, for the next instant at which the choice may change.",
    ),
    requirement("QV-24", "Sporadic server: a list of dated pieces of budget, whose sum never changes."),
    requirement(
        "QV-25",
        "What was used comes back a period after the date of its piece; an overrun is a debt of the pieces behind it.",
    ),
    requirement(
        "QV-26",
        "Who sleeps with a piece half used splits it; a full list delays what is left and loses nothing.",
    ),
    requirement("QV-27", "Who wakes dates its piece anew; time at rest gives no credit."),
    requirement(
        "QV-28",
        "A pre-emption neither splits a piece nor dates it anew (anchor `eligible`); the list has a maximum length.",
    ),
    requirement(
        "QV-29",
        "The known defects of the POSIX rule are absent: budget that grows, budget that is back too early, a background without limit.",
    ),
    requirement(
        "QV-30",
        "Rules besides: a smallest piece, no overlap, a full list delays its end, budgets that change, dates too far away.",
    ),
    requirement(
        "QV-31",
        "What was used is not back before a period has passed; what holds in every window is the computed envelope.",
    ),
    requirement(
        "QV-32",
        "An I/O server has a share of the core; its period and priority are those of the client that it works for.",
    ),
    requirement("QV-33", "PIBS, granting: the shortest client's period counts, and a grant is dated by eligibility."),
    requirement(
        "QV-34",
        "PIBS, charging: eligibility moves by use over share, so what was used is paid back at the server's rate.",
    ),
    requirement("QV-37", "Equation (1) is computed for each core, as information; the exact analysis decides."),
    requirement("QV-38", "Exact response-time analysis decides whether a system is accepted."),
    requirement("QV-39", "Under overload the more important ones keep their guarantees."),
    requirement(
        "QV-40",
        "Guests need not state tasks or deadlines; what isolates them is the servers of their vCPUs. (Tasks of a trusted guest say how often it pre-empts others.)",
    ),
    requirement("QV-41", "Time is accounted for each server, idle time for each core, and both can be read."),
    requirement(
        "MZ-10",
        "Which interrupts act at once, and who may be pre-empted, is fixed in the description, guest by guest.",
    ),
    requirement("MZ-11", "The seed's example of three guests can be written."),
    requirement("MZ-12", "What an interrupt does depends on its owner, on who runs, and on their rules alone."),
    requirement("MZ-13", "Interrupts that wait for a turn are listed with their longest wait."),
    requirement("MZ-14", "A guest that may not be pre-empted loses the core to the scheduler alone."),
    requirement("MZ-15", "A delayed interrupt waits in one of two ways, `masked` or `latched`, each with its bound."),
    requirement(
        "MZ-16",
        "Latched guests run in the order of their interrupts, one whenever a quantum ends; what they take is accounted.",
    ),
    requirement("MZ-17", "A storm costs one exit for each source and absence of its owner."),
    requirement("MZ-18", "Interrupts of others never reach the guest that runs."),
    requirement(
        "MZ-19",
        "Each interrupt mode has its encoding and its count of exits: none in `direct`, one per interrupt in `mapped`, and `mapped` alone on shared cores ([0003](design-records/0003-one-exit-per-mapped-interrupt.md), [0021](design-records/0021-shared-cores.md)).",
    ),
    requirement("MZ-20", "`none`: an interrupt waits for its owner's turn, for all turns of the others at most."),
    requirement("MZ-21", "`recycle`: the owner has what is left of the quantum, and no turn moves."),
    requirement("MZ-22", "`reset`: the owner has a whole quantum, and the turns behind it move."),
    requirement(
        "MZ-23",
        "Afterwards the ring goes on behind who was pre-empted; that it moves with the owner is an option.",
    ),
    requirement("MZ-24", "An interrupt of the guest that runs starts no quantum."),
    requirement(
        "MZ-25",
        "The policy is chosen for each core; the checker says what `recycle` and `reset` do not bound.",
    ),
    requirement("MZ-26", "Time taken in others' turns is counted, and each interrupt can have a limit of its rate."),
    requirement("SP-10", "An exchange of vCPUs exchanges all registers."),
    requirement("SP-11", "Fixed priorities, pre-emptive: the RTOS is above the general-purpose guest."),
    requirement("SP-12", "The less important guest runs only while the RTOS has nothing to do."),
    requirement("SP-13", "How a guest schedules its own work stays as it is, and nothing is known of it."),
    requirement("SP-14", "An interrupt of a sleeping vCPU makes it ready."),
    requirement(
        "SP-15",
        "An interrupt of the RTOS pre-empts the other guest at once, also where that one has masked its own.",
    ),
    requirement("SP-16", "Going to sleep loses no wake-up: with an interrupt pending it ends at once, masked or not."),
    requirement("SP-17", "When all vCPUs sleep the core does, and the interrupt that wakes it goes to its owner."),
    requirement(
        "SP-18",
        "Floating point is switched at its first use or with everything else; the cost of a switch is measured for both.",
    ),
    requirement(
        "SP-19",
        "Time of each vCPU is counted; that an RTOS without budget may starve the others is not hidden.",
    ),
    requirement("SG-40", "Idle approach: the general-purpose guest runs when the RTOS is idle."),
    requirement("SG-41", "Three servers of one guest: one for its interrupts, one for its share, one for idle time."),
    requirement(
        "SG-42",
        "The first two are deferrable: refilled at each period, kept while unused, never saved for another period.",
    ),
    requirement(
        "SG-45",
        "A gate is open until the budget is used up or, with voluntary return, until the interrupt was handled.",
    ),
    requirement("SG-46", "Their priorities are free, also between the RTOS's tasks."),
    requirement(
        "SG-47",
        "Analysis below a deferrable server counts its double hit; delays of the guest have bounds, idle, above and between the tasks.",
    ),
    requirement(
        "SG-48",
        "Whatever the other guest does, the RTOS is delayed by a constant of the monitor and by nothing else.",
    ),
    requirement("SG-50", "Cyclic schedule: a table of windows that repeats on an absolute grid."),
    requirement(
        "CH-30",
        "A limiter passes so many notifications in each window of a fixed grid, in constant time and memory.",
    ),
    requirement(
        "CH-31",
        "What is beyond the limit does not reach the receiver; the sender is told, and the data stays.",
    ),
    requirement(
        "CH-32",
        "In any window of a period twice the limit may pass, and no more; longer windows have a bound as well.",
    ),
    requirement(
        "CH-33",
        "The limiter sits in the monitor rather than with the sender, who may be hostile ([0021](design-records/0021-shared-cores.md)); it is reached by index, without search and without lock.",
    ),
    requirement("CH-34", "The limiter's state changes by atomic instructions alone."),
    requirement(
        "CH-35",
        "Window and count are one word, exchanged by compare-and-swap, so senders at one time pass no more together.",
    ),
    requirement(
        "CH-36",
        "A limit belongs to each sending end, or to a receiving partition in aggregate; on a shared core the receiver can also limit each of its interrupts.",
    ),
    requirement("CH-37", "Window and limit are parameters of the doorbell; one without a limit is shown as dangerous."),
    requirement(
        "CH-38",
        "A receiver that also polls has a bound from message to handling, with the limiter and without.",
    ),
    requirement(
        "CH-39",
        "Taking notifications is bounded: one interrupt for each exit, however many are sent meanwhile.",
    ),
    requirement(
        "CH-41",
        "At most two notifications of one doorbell are outstanding, one active and one pending; the others join them.",
    ),
    requirement("CH-42", "Notifications sent, held back and received are counted where tests can read them."),
    requirement(
        "MZ-E1",
        "Answer times of a wire's owner by policy, reading and place in the ring, beside the published ones and a model.",
    ),
    requirement("SP-E2", "Delay of the RTOS's interrupt: native, while it runs, while the other guest runs."),
    requirement("SP-E3", "What a 1 ms tick of an RTOS costs Linux on the same core."),
    requirement("SP-E4", "Delay of the RTOS beside loads of the other guest; what that one masks adds nothing."),
    requirement("SP-E5", "An event of either guest while the other one runs."),
    requirement("QV-E10", "The seed's figure 4: schedule and lists of the servers."),
    requirement("SG-E5", "Delay of the guest's interrupts, idle approach against ITask, beside a model."),
    requirement("SG-E6", "Wake-up latency and share of a periodic thread, with an RTask and without."),
    requirement(
        "SG-E7",
        "Lateness of a program in stock Linux beside RTOS tasks stays below the bound of its server's place (priorities inside Linux are not mapped to the RTOS's, because guests stay unmodified).",
    ),
    requirement("RR-03", "The published policies under a storm starve the owner's peers; a budget does not."),
];
