//! Finding codes: stable names for everything that the verifier refuses.

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $title:literal;)*) => {
        /// What kind of mistake a finding is. A code keeps its meaning for good; retired codes are not used again.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $name,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the code as printed, e.g. `V042`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns what the code means, in a few words.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// Returns what is wrong with an image that gets the code, in whole sentences.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc,)+).trim_ascii(),)* }
            }
        }
    };
}

codes! {
    /// The first 64 bytes are no arm64 Image header, or its size field is wrong.
    Arm64Header = "V001", "arm64 Image header";
    /// No page holds an image header.
    NoHeader = "V002", "image header missing";
    /// Another version of the layouts.
    Version = "V003", "layout version";
    /// The header's checksum is wrong.
    HeaderCrc = "V004", "header checksum";
    /// The file is shorter or longer than its header says.
    FileLength = "V005", "file length";
    /// The plan area's checksum is wrong.
    PlanCrc = "V006", "plan checksum";
    /// Text, read-only data, header and plan do not follow each other in whole pages.
    HeaderLayout = "V007", "layout of the file";
    /// A count is beyond what the layouts hold.
    Count = "V008", "count out of bounds";
    /// The monitor's memory is not inside RAM.
    MonitorOutsideRam = "V009", "monitor outside RAM";
    /// A core plan cannot be read or names another core.
    VcpuPlan = "V010", "core plan";
    /// Two cores have one MPIDR, or boot record and plan disagree on it.
    Mpidr = "V011", "core identity";
    /// Boot record and core plan disagree.
    BootRecord = "V012", "boot record";
    /// A partition plan cannot be read or names another partition.
    PartitionPlan = "V013", "partition plan";
    /// vCPUs and cores are not one to one.
    VcpuCore = "V014", "vCPU and core";
    /// HCR_EL2 is not the value that confines this mode.
    Hcr = "V015", "HCR_EL2";
    /// VTCR_EL2 is not the value that the tables are made for.
    Vtcr = "V016", "VTCR_EL2";
    /// VTTBR_EL2 holds another VMID than the partition's.
    Vmid = "V017", "VMID";
    /// VTTBR_EL2 points at another partition's or no root.
    Stage2Root = "V018", "stage-2 root";
    /// MDCR_EL2 does not trap what it must.
    Mdcr = "V019", "MDCR_EL2";
    /// CPTR_EL2 is wrong.
    Cptr = "V020", "CPTR_EL2";
    /// Mode, flags, health policy or other words of a plan hold no allowed value.
    PlanValue = "V021", "plan value";
    /// An entry past a count is not empty.
    Leftover = "V022", "entry past its count";
    /// Two things in monitor memory overlap.
    AreaOverlap = "V023", "areas overlap";
    /// Something that belongs into monitor memory lies outside its place.
    AreaPlace = "V024", "area outside its place";
    /// The page below a stack is mapped.
    Guard = "V025", "guard page";
    /// The checksum of text and read-only data is wrong.
    TextCrc = "V026", "monitor checksum";
    /// Text or read-only data are not those of the monitor that the image must hold.
    OtherMonitor = "V027", "another monitor";
    /// The header names another part of the monitor than the image holds, or one that does not serve its plan.
    Part = "V029", "part of the monitor";
    /// A byte that belongs to nothing is not zero.
    Padding = "V028", "padding";
    /// A translation table lies outside the plan area, is used twice, or holds a malformed descriptor.
    Table = "V030", "translation table";
    /// A page is writable and executable at EL2.
    WriteExecute = "V031", "writable and executable at EL2";
    /// EL2 can execute something that is not monitor text.
    Executable = "V032", "executable at EL2";
    /// An EL2 mapping is not identity.
    NotIdentity = "V033", "EL2 map not identity";
    /// A core's monitor maps another core's data, stack, rings or plan.
    ForeignCore = "V034", "EL2 maps another core";
    /// A core's monitor maps memory of another partition.
    ForeignPartition = "V035", "EL2 maps another partition";
    /// A core's monitor maps a translation table.
    TableMapped = "V036", "EL2 maps a translation table";
    /// A core's monitor maps something that is nobody's.
    UnknownMapped = "V037", "EL2 maps undeclared memory";
    /// A core's monitor has more or other rights than it should.
    El2Rights = "V038", "EL2 rights";
    /// A core's monitor lacks a mapping that it needs.
    El2Missing = "V039", "EL2 mapping missing";
    /// A memory type is wrong.
    MemoryType = "V040", "memory type";
    /// A guest can reach monitor memory.
    MonitorReachable = "V041", "monitor memory in a guest's map";
    /// A guest can reach a translation table.
    TableReachable = "V042", "translation table in a guest's map";
    /// A guest can reach another partition's RAM.
    ForeignRam = "V043", "another partition's RAM in a guest's map";
    /// Two partitions can write one page.
    TwoWriters = "V044", "page with two writers";
    /// A guest has other rights on a declared page than it should.
    GuestRights = "V045", "guest rights";
    /// A guest can execute something that is not its RAM.
    GuestExecute = "V046", "guest executes from shared memory";
    /// A guest's RAM is not mapped where its plan says.
    RamMapping = "V047", "RAM mapping";
    /// An emulated window is mapped, so the monitor would not see accesses.
    WindowMapped = "V048", "emulated window mapped";
    /// A guest can reach the interrupt controller.
    GicMapped = "V049", "interrupt controller in a guest's map";
    /// Two partitions share a device page, or a device mapping is not one.
    DeviceMapping = "V050", "device mapping";
    /// RAM of partitions overlaps, or lies outside the machine's RAM, in reserved memory or in the monitor.
    RamPlace = "V051", "place of RAM";
    /// Emulated windows overlap or have the wrong place or size.
    Window = "V052", "emulated window";
    /// An interrupt has two owners.
    InterruptTwice = "V060", "interrupt with two owners";
    /// An interrupt number is no shared peripheral interrupt.
    InterruptNumber = "V061", "interrupt number";
    /// Kind or trigger of an interrupt is wrong, or the distributor's words disagree.
    InterruptKind = "V062", "interrupt kind";
    /// The guest's GICD_TYPER would not cover its interrupts, or shows more than needed.
    InterruptLimit = "V063", "highest interrupt";
    /// A doorbell would raise an interrupt that its receiver does not own as a doorbell.
    DoorbellTarget = "V064", "doorbell target";
    /// The limiter's word of a doorbell is no page of its own, nor one of all doorbells to the same receiver in the same measure.
    DoorbellWords = "V065", "doorbell words";
    /// A limiter lets nothing or everything through by mistake.
    Limiter = "V066", "doorbell limiter";
    /// A channel does not have exactly one source and one destination.
    ChannelEnds = "V070", "channel ends";
    /// The peer's status page in a window is not the peer's.
    ChannelStatus = "V071", "peer status page";
    /// Information page and plan disagree.
    Information = "V072", "information page";
    /// A PCI function is wrong.
    PciFunction = "V073", "PCI function";
    /// A restart would clear memory that the partition does not write.
    ChannelClear = "V074", "memory cleared at restart";
    /// The cores that receive console input are not the right ones, or do not form one ring.
    ConsoleInput = "V067", "console input";
    /// A segment would be copied outside the partition's RAM.
    SegmentDestination = "V080", "segment destination";
    /// A pristine copy is not in the image's own part for it.
    SegmentSource = "V081", "segment source";
    /// A pristine copy does not match its checksum.
    SegmentCrc = "V082", "segment checksum";
    /// Segments overlap in RAM.
    SegmentOverlap = "V083", "segments overlap";
    /// Entry point or device tree is not in the loaded image.
    Entry = "V084", "entry point or device tree";
    /// A schedule cannot be read, or one of its words has no allowed value.
    Schedule = "V100", "schedule of a shared core";
    /// A slot names another core's plan, another partition, or private data that is not its own.
    Slot = "V101", "slot of a shared core";
    /// A server contradicts itself, its order or its rule.
    Server = "V102", "server";
    /// Behind an interrupt gate there is no budget, so a guest that never ends its interrupt would keep the core.
    OpenGate = "V103", "interrupt gate without a budget";
    /// A server is paid for by one that cannot pay.
    Payer = "V104", "payer";
    /// Windows overlap, leave the major frame, or belong to no slot.
    TimeTable = "V105", "time table";
    /// The vCPUs on shared cores are not those that the partition's plan names.
    SharedVcpus = "V106", "vCPUs on shared cores";
    /// The route of an interrupt is unknown, does not fit the core, has half a limit, or is for a client that does not ring.
    InterruptRoute = "V107", "interrupt route";
    /// A partition with several vCPUs has the first one, whose core waits for those of the others, on a shared core, or two on one.
    SeveralShared = "V108", "several vCPUs, the first on a shared core, or two on one";
    /// A vCPU of a shared core is not told of stolen time where its guest looks for it, or by another clock than the counter.
    StolenTime = "V109", "stolen time";
    /// Physical address size, banks of RAM or security states are none that a board can have.
    Board = "V110", "facts of the board";
    /// TCR_EL2 or MAIR_EL2 is not the value that the EL2 tables are made for.
    Tcr = "V111", "TCR_EL2 and MAIR_EL2";
    /// A core is of no type that the list of registers knows, or of one with a smaller physical address.
    CoreType = "V112", "type of a core";
    /// A device plan or the scripts of the boot core cannot be read, or contradict the partitions and streams.
    DevicePlan = "V120", "device plan";
    /// The stream table of the SMMU is not in its place.
    StreamTable = "V121", "stream table";
    /// A stream without an owner does not abort, or one with an owner goes elsewhere than through its partition's descriptor.
    StreamEntry = "V122", "entry of a stream";
    /// A context descriptor is not exactly the one that the tables behind it need, or two share an address space.
    ContextDescriptor = "V123", "context descriptor";
    /// A device reaches something else than RAM of its own partition.
    DeviceTable = "V124", "table of a device";
    /// The SMMU gets other commands than to forget what it had.
    CommandQueue = "V125", "command queue";
    /// A script does what none may do, or does not end where the plan says: a master of the bus before the SMMU translates, no reset.
    DeviceScript = "V126", "device script";
    /// What a guest sees of a function, or where the function is, is nothing that it may have.
    FunctionHeader = "V127", "header of a function";
    /// The line of a function is not a level-sensitive interrupt of its partition.
    FunctionLine = "V128", "line of a function";
    /// A front of a virtio device has no back end, several, or one of another kind; or two partitions serve those of one.
    FrontPair = "V129", "front and back end";
    /// The pool or the device page of a front is not mapped to exactly the front, its back end and the front's monitor, or it can be cached or executed.
    FrontMemory = "V130", "memory of a front";
    /// What a front answers and what its restart writes is no device that a back end serves.
    FrontRegisters = "V131", "registers of a front";
    /// The doorbells of a front and of its back end do not lead to each other.
    FrontDoorbells = "V132", "doorbells of a front";
    /// Status, request or signalling entries give a partition a view that it must not have.
    Management = "V090", "management entries";
    /// The first page of a flash file is not the secure monitor that is expected.
    SecureMonitor = "V301", "secure monitor";
    /// The world plan is damaged, or says something where nothing is to be said.
    WorldPlan = "V302", "world plan";
    /// The payload is not in the file, goes elsewhere than to its place in secure RAM, or is damaged.
    Payload = "V303", "payload";
    /// A translation table of the payload is malformed or is not in its place.
    PayloadTable = "V304", "table of the payload";
    /// Something of the payload may be written and executed.
    PayloadWriteExecute = "V305", "writable and executable payload";
    /// The payload reaches something with other rights than it may have there, or does not reach what it needs.
    PayloadReach = "V306", "reach of the payload";
    /// The other world's memory is mapped as secure, or something else as the other world's.
    PayloadOtherWorld = "V307", "memory of the other world";
    /// The other world's memory is no memory, or has flash, secure RAM or registers of the payload in it.
    WorldWindow = "V308", "window of the other world";
    /// The other world is entered outside its memory, at no level that there is, or where nothing is loaded.
    WorldEntry = "V309", "entry of the other world";
    /// A segment is not in the file, not in the other world's memory, or overlaps another part.
    WorldSegment = "V310", "segment of the other world";
    /// The checksum of a segment is wrong.
    WorldSegmentCrc = "V311", "checksum of a segment of the other world";
    /// An interrupt belongs to both worlds, or to the wrong one.
    WorldInterrupt = "V312", "interrupt of a world";
    /// A server of the other world has numbers that none has.
    WorldServer = "V313", "server of the other world";
    /// A flash file is longer than flash, or has bytes that no part has.
    FlashLength = "V314", "length of the flash file";
    /// A channel between the worlds has numbers that none has, pages that are somebody else's, or is mapped as something else.
    WorldChannel = "V315", "channel between the worlds";
    /// How the other world is watched, or what happens after its faults, is nothing that the library does.
    WorldHealth = "V316", "health of the other world";
    /// What the secure monitor does for the cores of EL2 is nothing that the image below has, or more than it may have.
    WorldCores = "V317", "cores below a payload";
    /// The image of partitions below a payload is not alone there, of another part, or for another place or memory.
    WorldBelow = "V318", "partitions below a payload";
    /// A window is empty, overlaps another one, leaves the round, or is of a server that has no windows; or a server of windows has none.
    WorldWindows = "V330", "windows of the other world";
    /// The page of the wish is not behind the other world's memory, or a priority of threads wants no latency task, or two of them.
    WorldWish = "V331", "wish of the other world";
    /// An instance of the real-time kernel, and nothing to compare its kernel with.
    NoKernel = "V400", "kernel unknown";
    /// An instance does not begin as an arm64 Image of its length.
    InstanceImage = "V401", "image of an instance";
    /// The head of an instance is not as this version writes it.
    InstanceHead = "V402", "head of an instance";
    /// The checksum of an instance is wrong.
    InstanceChecksum = "V403", "checksum of an instance";
    /// The kernel of an instance is not the one that is expected.
    InstanceKernel = "V404", "kernel of an instance";
    /// The boot tables of an instance cannot be read, or there is something between their rows.
    InstanceTables = "V405", "boot tables of an instance";
    /// A translation table of an instance has bits that nobody expects, or is used twice.
    InstanceDescriptor = "V406", "translation table of an instance";
    /// The kernel's half of the addresses maps something else than it must.
    InstanceKernelHalf = "V407", "kernel's half of an instance";
    /// The tables of the moment in which translation is switched on map something else than they must.
    InstanceBootHalf = "V408", "tables of the switch-on";
    /// A page of an instance may be written and executed.
    InstanceWriteExecute = "V409", "writable and executable page of an instance";
    /// A component reaches the kernel, its tables, or what is nothing of the instance.
    InstanceReach = "V410", "reach of a component";
    /// A page is in two components.
    InstanceShared = "V411", "page of two components";
    /// A page of an instance is nobody's.
    InstanceUnused = "V412", "page of nobody";
    /// A component does not begin as one, or was built for another version of the kernel's ABI.
    InstanceComponent = "V413", "beginning of a component";
    /// A thread or a caller would enter a component outside its text.
    InstanceEntry = "V414", "entry of a component";
    /// A stack has no memory, is another one's as well, or has no empty page below it.
    InstanceStack = "V415", "stack of a component";
    /// A row of the boot tables names what is not there, or has bits that mean nothing, or there are more rows than there can be.
    InstanceRow = "V416", "row of the boot tables";
    /// A capability names no object, one that is not in its component's hands, or has rights that its kind has not, or that nobody begins with.
    InstanceCapability = "V417", "capability";
    /// An interrupt of an instance has two owners, or is the kernel's.
    InstanceInterrupt = "V418", "interrupt of an instance";
    /// A server of an instance is out of its order or its rule, or its time is somebody else's as well.
    InstanceServer = "V419", "server of an instance";
    /// The pool of an instance is not pages of zeros of its own.
    InstancePool = "V424", "pool of an instance";
    /// A program of processes is not whole, is in a component, or is not as a program must be.
    InstanceProgram = "V425", "program of processes";
    /// Quotas of an instance are more than there is, or nobody's.
    InstanceQuota = "V426", "quota of an instance";
    /// A scheduler of an instance is above itself, has no thread of its own, or a thread is not its.
    InstanceScheduler = "V427", "scheduler of an instance";
    /// A band of an instance has not servers of its own, or numbers that cannot be.
    InstanceBand = "V428", "band of an instance";
    /// A temporal capability says more than its server or its scheduler could, or is that of two.
    InstanceClaim = "V429", "temporal capability";
    /// Registers of a device are mapped otherwise than the boot tables of an instance say, or where no device of a component can be.
    InstanceDevice = "V433", "device of a component";
    /// Pages for DMA of a component are not its own memory, or not where its devices find them.
    InstanceDma = "V435", "pages for DMA of a component";
    /// A component has a device or an interrupt that its partition has not.
    InstanceForeign = "V434", "device of another partition";
    /// A function of an instance's partition reaches other memory than the pages for DMA of the component that drives it; or all RAM, without that the boot tables say that its driver is trusted with it;
    /// or another component has its registers.
    InstanceStreams = "V447", "DMA of an instance's function";
    /// A partition enters its instance elsewhere than where the kernel begins.
    InstanceStart = "V454", "start of an instance";
    /// A wire of an instance is no end of a channel, or exports what is not there.
    InstanceWire = "V437", "wire of an instance";
    /// A port of a component is no end of a channel, or the component does not have it as the boot tables of the instance say.
    InstancePort = "V439", "port of a component";
    /// A port of a component is none of its partition's, or has another shape, window or doorbell there.
    InstancePortEnds = "V449", "port of another partition";
    /// Places of the floating-point registers of an instance are not zeros of their own, one for each thread that there can be.
    InstanceFloatingPoint = "V453", "places of floating-point registers";
    /// The two ends of a wire do not fit: the partition has no such channel, or the other instance exports something else.
    InstanceWireEnds = "V438", "ends of a wire";
    /// What a reset gives a component back is not what its data begins with, or not all of it.
    InstanceData = "V446", "data of a component";
    /// The pages of the accounts are in a component that has them not, can be written there, or are others.
    InstanceAccounts = "V436", "accounts in a component";
}

impl Code {
    /// Finds a code by what people write: `V042` or `v42`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number: u32 = text.trim().strip_prefix(['V', 'v'])?.parse().ok()?;
        let name = format!("V{number:03}");
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }

    /// Returns the long text (Markdown): what the code means, and what to do.
    #[must_use]
    pub fn explanation(self) -> String {
        let advice = match self {
            Self::Arm64Header | Self::NoHeader => NO_IMAGE,
            Self::Version => OTHER_VERSION,
            Self::OtherMonitor | Self::SecureMonitor => OTHER_MONITOR,
            Self::NoKernel | Self::InstanceKernel => OTHER_KERNEL,
            _ => NOT_AS_BUILT,
        };
        format!("# {}: {}\n\n{}\n\n## What to do\n\n{advice}", self.name(), self.title(), self.meaning())
    }
}

const NO_IMAGE: &str = "\
The file is no image of Bulkhead, or its beginning is damaged. Name the file that `bulkhead build` wrote, not the
description, the monitor or a guest.
";

const OTHER_VERSION: &str = "\
The image was built by another version of the tool. Build it again with this one, or verify it with the one that built it
(`bulkhead --version`).
";

const OTHER_MONITOR: &str = "\
The image may be sound, but its monitor is not the one that was expected, so nothing that was tested or reviewed of that one
holds. If another monitor is meant, name its ELF file: `bulkhead verify --monitor ELF`. Otherwise build the image again.
";

const OTHER_KERNEL: &str = "\
The components may be isolated, but the kernel below them is not the one that was expected, so nothing that was tested or reviewed of that one
holds. If another kernel is meant, name its ELF file: `bulkhead verify --kernel ELF`. Otherwise build the image again.
";

const NOT_AS_BUILT: &str = "\
Do not run the image. `bulkhead build` does not write such a one: the file was damaged or changed afterwards, or the planner
has a mistake that this check found. Build the image again and compare the hashes that `bulkhead verify` prints. If a
fresh image is refused as well, that is a mistake in Bulkhead: report it with the description and the whole finding.
";

#[cfg(test)]
mod tests {
    use super::Code;
    use std::collections::HashSet;

    #[test]
    fn codes_are_unique() {
        let names: HashSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        assert!(names.iter().all(|name| name.len() == 4 && name.starts_with('V')));
    }

    #[test]
    fn every_code_is_found_and_says_what_to_do() {
        for code in Code::ALL {
            assert_eq!(Code::parse(code.name()), Some(*code));
            assert!(code.meaning().ends_with('.') && code.meaning().len() > 10, "{}: {}", code.name(), code.meaning());
            assert!(code.explanation().contains("\n## What to do\n"), "{}", code.name());
        }
        assert_eq!(Code::parse("v42"), Some(Code::TableReachable));
        assert_eq!((Code::parse("42"), Code::parse("V999"), Code::parse("V")), (None, None, None));
        assert_eq!(Code::TableReachable.meaning(), "A guest can reach a translation table.");
    }
}
