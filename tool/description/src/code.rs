//! The stable codes of diagnostics.
//!
//! A code never changes its meaning and is never used again: people search for it, and tests and scripts compare it.
//! Numbers are grouped: 00 form, 01 memory, 02 partitions and cores, 03 devices and interrupts, 04 images, 05 channels,
//! 06 health, 07 shared cores, 08 whether their time suffices (given by the analysis, which has their fixtures),
//! 09 the secure world, 10 PCI functions, 11 virtio devices between partitions, 12 instances of the real-time kernel. Each has a long text in `codes/`, one file per code, which the book includes too.

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The description is refused.
    Error,
    /// The description is accepted; a claim of isolation is weaker than it could be.
    Warning,
}

impl Severity {
    /// Returns `error` or `warning`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

macro_rules! codes {
    ($($variant:ident $name:ident $severity:ident $title:literal;)*) => {
        /// A stable code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// Every code, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the code as people write it, for example `BH0003`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name),)* }
            }

            /// Returns what the code means, in a few words.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// Returns the severity.
            #[must_use]
            pub fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)* }
            }

            /// Returns the long text (Markdown): what it means, an example, what to do.
            #[must_use]
            pub fn explanation(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("../codes/", stringify!($name), ".md")),)* }
            }
        }
    };
}

codes! {
    FileUnreadable BH0001 Error "a description or board file cannot be read";
    Syntax BH0002 Error "the text is not TOML";
    UnknownKey BH0003 Error "unknown key";
    MissingKey BH0004 Error "missing key";
    WrongType BH0005 Error "value of the wrong type";
    UnknownWord BH0006 Error "a word that is not one of the allowed ones";
    UnsupportedVersion BH0007 Error "unsupported version of the format";
    BadQuantity BH0008 Error "size or time without unit, or not a number";
    BadName BH0009 Error "bad name";
    DuplicateName BH0010 Error "name given twice";
    UnknownBoard BH0011 Error "unknown board";
    KeyDoesNotApply BH0012 Error "key that means nothing here";
    BadBoard BH0013 Error "board file with contradicting facts";
    BadTrace BH0014 Error "bad number of trace records";
    KeyNeeded BH0015 Error "key that another one asks for is missing";
    TooManyEntries BH0016 Error "list with too many entries";
    BoardTodo BH0017 Error "a fact of the board that is still to be found out";
    BoardLimit BH0018 Error "a board that lacks what the monitor needs";
    MemoryOverlap BH0101 Error "memory of two partitions overlaps";
    MemoryOverlapsMonitor BH0102 Error "memory of a partition overlaps the monitor";
    MemoryOutsideRam BH0103 Error "memory outside the machine's RAM";
    NotAligned BH0104 Error "address or size is not aligned";
    MemoryExhausted BH0105 Error "the machine's memory is too small for all partitions";
    GuestAddressTaken BH0106 Error "guest RAM covers addresses that have another use";
    TooMuchMemory BH0107 Error "more memory than the board can have";
    MemoryTooSmall BH0108 Error "memory of a partition is too small";
    NotPlannable BH0109 Error "the system cannot be laid out";
    UnknownCore BH0201 Error "core that the board does not have";
    CoreTwice BH0202 Error "core given twice";
    NoCore BH0203 Error "partition without a core";
    TooManyPartitions BH0204 Error "too many partitions";
    DirectUntrusted BH0205 Error "direct interrupts for an untrusted partition";
    DirectSeveralCores BH0206 Error "direct interrupts for a partition with several cores";
    DirectWatchdog BH0207 Error "watchdog for a partition with direct interrupts";
    DirectManages BH0208 Error "a partition with direct interrupts that manages others";
    DirectHazard BH0209 Warning "direct interrupts: the partition's SGIs are not filtered";
    NoPartition BH0210 Error "no partition";
    BootCoreUnused BH0211 Error "core 0 has no partition";
    ManagerUntrusted BH0212 Warning "untrusted partition that manages others";
    RoleMissing BH0213 Error "demonstration without one of its roles";
    DirectPriorities BH0214 Warning "direct interrupts on a board where a guest has 16 priority levels";
    UnknownDevice BH0301 Error "device that the board does not have";
    DeviceTwice BH0302 Error "device given twice";
    DmaNotTrusted BH0303 Error "device with DMA that is not declared trusted";
    DmaUntrustedPartition BH0304 Error "device with DMA that nothing can confine, for an untrusted partition";
    SharedPage BH0305 Error "devices of two partitions share a page";
    InterruptTwice BH0306 Error "interrupt given twice";
    ForeignInterrupt BH0307 Error "interrupt of a device that the partition does not have";
    TooManyInterrupts BH0308 Error "too many interrupts for one partition";
    DmaHazard BH0309 Warning "device with DMA that nothing confines";
    PageNeighbours BH0310 Warning "the page of a device holds others too";
    GuestFileMissing BH0401 Error "guest file cannot be read";
    NotLinuxImage BH0402 Error "not an arm64 Linux Image";
    NotElf BH0403 Error "not an ELF file";
    WrongMachine BH0404 Error "ELF file of the wrong kind";
    OutsidePartition BH0405 Error "image outside the partition's RAM";
    BadEntry BH0406 Error "entry point outside the image's code";
    ImageTooBig BH0407 Error "image too big for the partition's RAM";
    SegmentsOverlap BH0408 Error "segments of an ELF file overlap";
    TooManySegments BH0409 Error "too many segments in an ELF file";
    NotOverlay BH0410 Error "not a compiled device-tree overlay";
    TextTooLong BH0411 Error "command line or arguments too long";
    DeviceTreePlace BH0412 Error "device tree where it cannot lie";
    OneEnd BH0501 Error "channel with one end";
    UnknownPort BH0502 Error "channel end that does not exist";
    UnconnectedPort BH0503 Error "port without a channel";
    PortTwice BH0504 Error "port with two channels";
    WrongDirection BH0505 Error "port used in the wrong direction";
    SizeMismatch BH0506 Error "ports with different message sizes";
    KindMismatch BH0507 Error "ports of different kinds";
    BadMessageSize BH0508 Error "message size out of range";
    BadDepth BH0509 Error "queue depth out of range";
    BadLimiter BH0510 Error "limiter that lets nothing through or cannot be kept";
    TooManyPorts BH0511 Error "too many ports for one partition";
    TooManyDoorbells BH0512 Error "too many doorbells for one partition";
    SparesExhausted BH0513 Error "more spare interrupts needed than the board has";
    LoopChannel BH0514 Error "channel from a partition to itself";
    UnlimitedDoorbell BH0515 Warning "doorbell without a limiter";
    LimitedTwice BH0516 Error "doorbell with two limits";
    BadPolls BH0517 Error "time between two looks at a port out of range";
    RestartWithoutLimit BH0601 Error "restart policy without a limit";
    LimitZero BH0602 Error "limit of zero";
    BadWatchdog BH0603 Error "watchdog period out of range";
    LimitNeverReached BH0604 Warning "restart limit that can never be reached";
    LimitTooLarge BH0605 Error "restart limit that the monitor cannot keep";
    ScheduleTwice BH0701 Error "core with two schedules";
    UnusedSchedule BH0702 Error "schedule of a core that nobody uses";
    DirectShared BH0703 Error "direct interrupts on a shared core";
    NoServer BH0704 Error "vCPU of a shared core without a server";
    ServerNotHere BH0705 Error "server where there is nothing to share";
    UnknownVcpu BH0706 Error "server of a vCPU that the partition does not have";
    TooManyServers BH0707 Error "too many servers";
    BadPriority BH0708 Error "priority out of range";
    BadBackground BH0709 Error "background priority that is not behind the server's own";
    OpenGate BH0710 Error "interrupt gate without a budget";
    BadBudget BH0711 Error "budget or period out of range";
    BadChunks BH0712 Error "number of chunks out of range";
    BadMinimum BH0713 Error "smallest remainder or least charge out of range";
    BadShare BH0714 Error "share of a core that is none";
    UnknownServer BH0715 Error "payer or client that does not exist";
    BadPayer BH0716 Error "payer that cannot pay";
    BadClient BH0717 Error "client that a PIBS server cannot have";
    RouteNeedsTurns BH0718 Error "rule of the round robin on another core";
    BadQuantum BH0719 Error "quantum out of range or given twice";
    WindowCount BH0720 Error "time table without windows, or with too many";
    WindowOverlap BH0721 Error "windows overlap";
    WindowOutside BH0722 Error "window outside the major frame";
    NotWholeTicks BH0723 Error "time of a time table that is no whole number of ticks";
    UnknownWindow BH0724 Error "window of a partition that is not on the core";
    WindowGate BH0725 Error "window gate that no window opens";
    BadTask BH0726 Error "task that cannot be";
    OneReceiver BH0727 Warning "virtual UART that gets no input";
    TooManyLimits BH0728 Error "too many interrupts with a limit on a shared core";
    SeveralShared BH0729 Error "partition with several cores of which the first is shared";
    NotSchedulable BH0801 Error "server that does not get its budget in time";
    Starves BH0802 Error "server without a limit that may keep the core from another guest";
    TaskLate BH0803 Error "task that misses its deadline";
    LimitTooWide BH0804 Error "limit whose interrupts may take the whole core";
    BudgetTooSmall BH0805 Error "budget that switching uses up";
    InterruptLate BH0806 Error "interrupt that misses its deadline";
    BoundNotFound BH0807 Error "promise whose bound was not found";
    PayloadLate BH0808 Error "task of a payload that misses its deadline";
    WindowLost BH0809 Error "window in which nothing is certain to run";
    SiblingStarves BH0810 Error "one of several vCPUs that is promised no time";
    DrainedLate BH0820 Warning "interrupt that is late when the budget was just used up";
    MayStarve BH0821 Warning "trusted server without a limit above another guest";
    DoubleHit BH0822 Warning "deferrable server above others";
    FewChunks BH0823 Warning "fewer chunks than runs of the guest";
    CreditUntrusted BH0824 Warning "eligible-dated budget of an untrusted partition";
    CapGuaranteed BH0825 Warning "dispatch-dated budget of a guest that needs its supply";
    ClientPeriods BH0826 Warning "clients of one PIBS server with very different periods";
    WindowGap BH0827 Warning "windows with nothing between them";
    WindowPeriod BH0828 Warning "period that does not fit the time table";
    PolicyStorm BH0829 Warning "round-robin policy that does not isolate";
    PublishedRule BH0830 Warning "published PIBS rule, whose bounds do not hold";
    SmallRemainder BH0831 Warning "smallest remainder that does not pay for a switch";
    SlowSibling BH0832 Warning "vCPUs that may wait long for one of them";
    NoSecureWorld BH0901 Error "secure section on a board without EL3";
    SecureNeeded BH0902 Error "system without a secure section on a board that is entered at EL3";
    NotBuiltYet BH0903 Error "part of a secure section that is not built yet";
    PayloadOutside BH0904 Error "payload outside its secure RAM";
    PayloadFloatingPoint BH0905 Error "floating point in a payload that did not declare it";
    DeviceOfBoth BH0906 Error "device of both worlds";
    InterruptOfBoth BH0907 Error "interrupt of both worlds";
    SecurePriority BH0908 Error "priority of a secure interrupt that is the non-secure world's";
    NobodysInterrupt BH0909 Error "urgent interrupt of nobody";
    ServerWithoutPeriod BH0910 Error "server of the non-secure world without a period";
    WorldOutside BH0911 Error "image or entry outside the non-secure world";
    FlashFull BH0912 Error "more than the flash holds";
    BadHeartbeat BH0913 Error "heartbeat out of range";
    BadStuckSamples BH0914 Error "number of samples out of range";
    SharedBelow BH0915 Error "core that partitions share below a payload";
    DirectBelow BH0916 Error "direct interrupts of an untrusted partition on the payload's core";
    CoreBeyond BH0917 Error "core that the secure monitor does not serve";
    UrgentElsewhere BH0918 Error "urgent interrupt of another core than the payload's";
    SgiUnfiltered BH0919 Error "SGIs of an untrusted partition that arrive at a core of another one";
    BadWorldChannel BH0920 Error "channel between the worlds out of range";
    ForeignEnds BH0921 Warning "interrupt of the payload beside an untrusted partition with direct interrupts";
    SgiOfKicks BH0922 Warning "software-generated interrupt that guests below a payload do not have";
    ChannelOfNobody BH0925 Error "channel between the worlds without a partition";
    ChannelRung BH0926 Error "channel by which a partition would interrupt the payload";
    ServerBesideLatency BH0930 Error "server with a budget or windows beside latency tasks";
    ThreadsOutside BH0931 Error "priorities of threads that none has, or that want two latency tasks";
    WindowInterrupt BH0932 Error "interrupt of windows that is no spare one";
    ModelNotConfined BH1001 Error "model of a PCI function that is not confined and says that it is";
    NoHostBridge BH1002 Error "PCI function on a board that has none to give";
    UnknownModel BH1003 Error "PCI function of an unknown model";
    UnknownOwner BH1004 Error "PCI function of a partition that does not exist";
    PlaceTwice BH1005 Error "slot given to two PCI functions";
    SharedLine BH1006 Error "interrupt line of PCI functions of two partitions";
    NoPlace BH1007 Error "PCI function that the board has no place for";
    FunctionWithoutReset BH1008 Error "PCI function without a reset for a partition that can start again";
    BadDisk BH1009 Error "file that cannot be a disk";
    DiskSize BH1010 Error "disk that does not consist of whole sectors";
    BadForward BH1011 Error "forwarded port that is not one of this host alone";
    BackingMissing BH1012 Error "PCI function without the disk or network that it needs";
    BackingUnused BH1013 Error "disk or network of a PCI function that has no use of it";
    LonelyHub BH1014 Error "hub that joins one PCI function";
    RegionOutside BH1015 Error "region outside the RAM of its partition";
    UnknownRegion BH1016 Error "region that the partition does not have";
    NothingConfines BH1017 Error "regions for DMA that nothing confines";
    BadDmaPoll BH1018 Error "time between two looks at DMA events out of range";
    DirectDmaPoll BH1019 Error "direct interrupts and looks at DMA events";
    UnknownEnd BH1101 Error "virtio device of a partition that does not exist";
    ServesItself BH1102 Error "virtio device that its own partition would serve";
    TwoBacks BH1103 Error "virtio devices of one partition that two others would serve";
    FrontTooSmall BH1104 Error "virtio device of a partition with less than 64 MiB";
    FrontDirect BH1105 Error "virtio device of a partition with direct interrupts";
    VirtioSize BH1106 Error "virtio disk without a size in whole sectors";
    BadMac BH1107 Error "address that a network card cannot have";
    MacTwice BH1108 Error "address of two network cards";
    TooManyFronts BH1109 Error "more virtio devices than a partition can have";
    BackWithoutServer BH1110 Warning "virtio device whose back partition lacks the program that serves it";
    RamBelowPool BH1111 Error "RAM below the pool of virtio devices";
    VirtioBelowPayload BH1112 Error "virtio device below a payload of the secure world";
    FrontRungDry BH1113 Warning "virtio device whose interrupts a third partition can use up";
    UnknownComponent BH1201 Error "component that does not exist";
    NotExported BH1202 Error "function that the component does not export";
    ExportedTwice BH1203 Error "function that a program exports twice";
    Unbound BH1204 Error "function that a program calls and nothing binds";
    BindUnused BH1205 Error "binding of a function that the program does not call";
    SignatureDiffers BH1206 Error "function with another signature than its caller's";
    BadBinding BH1207 Error "binding to what no function can be bound to";
    ProgramWritableText BH1208 Error "program with writable text";
    ProgramOverlap BH1209 Error "segments of a program that share a page";
    ProgramOutside BH1210 Error "segment of a program outside a component's addresses";
    NotComponent BH1211 Error "program that is no component";
    ProgramVersion BH1212 Error "program of another version of the kernel's ABI";
    TooFewStacks BH1213 Error "too few stacks for callers";
    LessTrusted BH1214 Error "call into a less trusted component that cannot be aborted";
    NeedsTooMuch BH1215 Error "need of a callee that a caller's budget never has";
    NoPayer BH1216 Error "thread that nothing pays for";
    UnknownPayer BH1217 Error "server or scheduler that does not exist";
    EndPointTwice BH1218 Error "thread with two end points";
    UnknownThread BH1219 Error "thread that does not exist, or has no end point";
    UnknownSignal BH1220 Error "signal that no end point has";
    TooManySignals BH1221 Error "too many signals for an end point";
    InstanceNotYet BH1222 Error "part of an instance that the kernel cannot run yet";
    TooManyObjects BH1223 Error "more objects than the kernel has room for";
    BadStack BH1224 Error "stack that cannot be";
    PoolTooSmall BH1225 Error "quotas beyond the pool";
    KernelCores BH1226 Error "instance of the kernel on several cores";
    KernelPlace BH1227 Error "instance of the kernel in RAM that begins elsewhere";
    KernelShared BH1228 Error "instance of the kernel on a shared core that it cannot keep time on";
    BadPeriod BH1229 Error "period that an interrupt cannot have";
    CallsTooDeep BH1230 Warning "calls that can be deeper than a thread's frames";
    SchedulerTree BH1231 Error "schedulers that are above themselves, or too deep";
    BadBand BH1232 Error "band with impossible periods";
    NoComponent BH1233 Error "instance without a component";
    InstanceLate BH1234 Error "server of an instance that does not get its budget in time";
    GrantTooSmall BH1235 Error "grant of a server for others that is not worth a switch";
    UnlimitedAbove BH1236 Error "server without a limit before one with a budget";
    BandAbove BH1237 Error "band that makes a server behind it late";
    EquationOrder BH1238 Error "published test without the order that it is about";
    HeldElsewhere BH1239 Error "thread of a scheduler that does not hold its server";
    SchedulerThread BH1240 Error "scheduler without a thread that can take its events";
    TooManyVetoes BH1241 Error "too many servers that can be passed over";
    ProcessSlots BH1246 Error "slots of a process that do not fit its program";
    UnknownProgram BH1247 Error "unknown program of processes";
    NoQuota BH1248 Error "component that makes processes without a quota";
    BadQuota BH1249 Error "quota that is none";
    CallerNotHeld BH1251 Error "caller of a scheduler on a server that it does not hold";
    SchedulerElsewhere BH1252 Error "scheduler in the hands of another component";
    UnknownHanded BH1253 Error "scheduler, server or band that a binding names and that does not exist";
    ComponentDevice BH1262 Error "device that a component cannot have";
    ComponentDeviceTwice BH1263 Error "device of two components";
    ComponentDevicePage BH1264 Error "device whose registers are not pages of their own";
    InterruptWithoutDevice BH1265 Error "interrupt of a device or port that the component does not have";
    ComponentDma BH1266 Warning "device of a component that writes memory by itself";
    ConsoleDriven BH1267 Warning "component that drives the UART that the kernel prints with";
    FunctionReachesKernel BH1268 Error "PCI function whose DMA reaches the memory of the kernel";
    DmaPages BH1269 Error "pages for DMA that a component cannot have";
    WireWithoutChannel BH1270 Error "wire without a channel";
    WireDirection BH1271 Error "wire against the direction of its port";
    WireWithoutDoorbell BH1272 Error "wire over a channel without a doorbell";
    UnknownExport BH1273 Error "export that the other instance does not have";
    BadExport BH1274 Error "exports that a wire cannot have";
    WireOfNobody BH1275 Error "wire from which nobody takes";
    WireTwice BH1276 Error "port that is used twice";
    PortOtherwise BH1277 Error "port that a program uses otherwise than it is";
    NotSupervised BH1278 Error "capability for a component that another one supervises";
    OwnSupervisor BH1279 Error "component that would supervise itself";
    ForeignThread BH1280 Error "capability for a thread of a component that another one supervises";
    NoProgram BH1281 Error "processes of no program";
    NoLimit BH1282 Warning "notifications without a limit";
    UnknownLimit BH1283 Error "limit of nothing";
    BadLimit BH1284 Error "limit that cannot be";
    DoorbellsAbove BH1291 Warning "doorbells of wires that make a server late";
    ComponentFloatingPoint BH1295 Error "floating point in a component that did not declare it";
    UnusedFloatingPoint BH1296 Warning "floating point that is declared and never used";
    InterruptTakesTime BH1299 Warning "interrupt of a thread that runs on time of others";
}

impl Code {
    /// Finds a code by what people write: `BH0003`, `bh0003` or `3`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.trim().to_ascii_uppercase();
        let digits = digits.strip_prefix("BH").unwrap_or(&digits);
        let number: u32 = digits.parse().ok()?;
        let name = format!("BH{number:04}");
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }

    /// States whether a mistake has nothing to do with the time of shared cores: it is about memory, an image, health or the trace, or
    /// a part that time depends on is then missing, and with it the system.
    #[must_use]
    pub fn leaves_time_alone(self) -> bool {
        let is_elsewhere = ["BH01", "BH04", "BH06", "BH12"].iter().any(|group| self.name().starts_with(group));
        is_elsewhere || matches!(self, Self::BadTrace | Self::BadQuantity | Self::BadName)
    }

    /// States whether the mistake is one of the environment, not of the description: exit code 3 instead of 1.
    #[must_use]
    pub fn is_environment(self) -> bool {
        self == Self::FileUnreadable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_by_name_and_number() {
        assert_eq!(Code::parse("BH0003"), Some(Code::UnknownKey));
        assert_eq!(Code::parse("bh0003"), Some(Code::UnknownKey));
        assert_eq!(Code::parse("3"), Some(Code::UnknownKey));
        assert_eq!(Code::parse("BH9999"), None);
        assert_eq!(Code::parse("UnknownKey"), None);
    }

    #[test]
    fn codes_are_unique_and_in_order() {
        assert!(Code::ALL.windows(2).all(|pair| pair[0].name() < pair[1].name()));
    }

    #[test]
    fn every_code_has_a_long_text_with_an_answer() {
        for code in Code::ALL {
            let text = code.explanation();
            assert!(text.starts_with(&format!("# {}: {}\n", code.name(), code.title())), "{}: first line", code.name());
            assert!(text.contains("\n## What to do\n"), "{}: no advice", code.name());
            assert!(text.contains("```toml"), "{}: no example", code.name());
            assert!(text.len() > 300, "{}: {} bytes are not an explanation", code.name(), text.len());
        }
    }
}
