//! Rows of the boot tables. A number that may be missing is [`crate::NONE`]; times are ticks of the counter.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Defines rows of a stated size.
macro_rules! rows {
    ($($(#[$about:meta])* $row:ident: $bytes:literal { $($(#[$meaning:meta])* $field:ident: $word:ty,)+ })+) => {
        $($(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $row { $($(#[$meaning])* pub $field: $word,)+ }
        const _: () = assert!(size_of::<$row>() == $bytes);)+
    };
}

rows! {
    /// A component.
    ComponentRow: 80 {
        /// Its name, zero-filled.
        name: [u8; 16],
        /// Root of its translation table.
        root: u64,
        /// Ticks that a caller must have in hand to enter; 0 for none.
        needs_ticks: u64,
        /// First of its capability slots.
        first_slot: u32,
        /// Its slots.
        slots: u32,
        /// First of its entries.
        first_entry: u32,
        /// Its entries.
        entries: u32,
        /// First of its stacks for callers.
        first_stack: u32,
        /// Its stacks, at most [`crate::MAX_STACKS`].
        stacks: u32,
        /// Order of trust; a call goes to one that is not less trusted, or that can be aborted (CH-8).
        trust: u8,
        /// A call out of it may be aborted (CH-10).
        abortable: u8,
        /// Threads inside use floating point, 1; otherwise its use is a fault, 0.
        floating_point: u8,
        /// What a fault of a caller inside comes to: 0 `return`, 1 `reset`, 2 `stop`.
        on_fault: u8,
        /// Quota that it was made from, [`crate::NONE`] for the host's.
        quota: u16,
        /// End point of its supervisor, or [`crate::NONE`].
        supervisor: u16,
        /// What the supervisor is sent.
        supervisor_bits: u64,
        /// It reads the pages of the accounts, 1, at [`crate::image::COMPONENT_ACCOUNTS`], or has them not, 0. For who looks at an instance.
        accounts: u16,
        /// Zero.
        reserved: [u16; 3],
    }

    /// A function that a component exports: where callers enter.
    EntryRow: 16 {
        /// Address.
        address: u64,
        /// Hash of name and signature, by which the host binds it; the kernel does not read it.
        signature: u64,
    }

    /// A stack for callers.
    StackRow: 8 {
        /// One past its highest byte; the page below it is not mapped.
        top: u64,
    }

    /// A thread.
    ThreadRow: 48 {
        /// First instruction.
        entry: u64,
        /// Stack pointer.
        stack: u64,
        /// First argument.
        argument: u64,
        /// What its scheduler knows it by.
        label: u64,
        /// Component whose it is.
        component: u16,
        /// Server that pays for it; unless it is a scheduler's.
        server: u16,
        /// Scheduler whose it is, or [`crate::NONE`].
        scheduler: u16,
        /// What it runs on; its server's own where it has no other.
        tcap: u16,
        /// End point that it takes from, or [`crate::NONE`].
        end_point: u16,
        /// It runs at boot.
        started: u16,
        /// Zero.
        reserved: u32,
    }

    /// A server: words of `core/words`, by number.
    ServerRow: 64 {
        /// How its time is spent and comes back.
        rule: u32,
        /// Flags of a server.
        flags: u32,
        /// Budget; of PIBS the numerator of its share.
        budget_ticks: u64,
        /// Period; of PIBS the denominator.
        period_ticks: u64,
        /// Smallest remainder that is worth a switch.
        smallest_chunk_ticks: u64,
        /// Own time after which the head of its threads goes to the back; 0 without. Of no meaning where a scheduler holds it.
        quantum_ticks: u64,
        /// Clients of an io server, by number of the server.
        clients: u64,
        /// Chunks.
        chunks: u16,
        /// Level with budget.
        level: u8,
        /// Level without, or 255.
        background: u8,
        /// Scheduler that holds it, or [`crate::NONE`]: its threads.
        holder: u16,
        /// Band whose slot it is, or [`crate::NONE`].
        band: u16,
        /// Its own temporal capability.
        tcap: u16,
        /// Zero.
        reserved: [u16; 3],
    }

    /// A band: servers made at run time.
    BandRow: 40 {
        /// Shortest period.
        shortest_period_ticks: u64,
        /// Longest period.
        longest_period_ticks: u64,
        /// Most budget of all its servers.
        budget_ticks: u64,
        /// Smallest budget of one.
        smallest_budget_ticks: u64,
        /// First of its server numbers.
        first_server: u16,
        /// Server numbers.
        servers: u16,
        /// 0 the band's rule alone, 1 with `equation-1`.
        admission: u16,
        /// Zero.
        reserved: u16,
    }

    /// A scheduler.
    SchedulerRow: 8 {
        /// Thread that takes its events.
        thread: u16,
        /// Its parent, or [`crate::NONE`].
        parent: u16,
        /// Its number in vectors; not 0, which is the kernel's.
        id: u16,
        /// Zero.
        reserved: u16,
    }

    /// A temporal capability.
    TcapRow: 168 {
        /// Ticks, or [`crate::ALL_TICKS`].
        left_ticks: u64,
        /// Root server.
        server: u16,
        /// Its own scheduler's id.
        scheduler: u16,
        /// Words of the vector in use.
        words: u16,
        /// End point of its scheduler's thread, or [`crate::NONE`].
        end_point: u16,
        /// Permanent priority.
        priority: u64,
        /// Ids in bits 63:48 and priorities in 47:0, sorted by id.
        vector: [u64; crate::MAX_VECTOR],
        /// When it expires; all ones for never.
        expires_ticks: u64,
        /// Zero.
        reserved: u64,
    }

    /// An end point.
    EndPointRow: 8 {
        /// Thread that takes from it, or [`crate::NONE`].
        thread: u16,
        /// On what it wakes that thread.
        tcap: u16,
        /// Component that may be told its number.
        component: u16,
        /// Zero.
        reserved: u16,
    }

    /// An interrupt that is bound to an end point.
    BindingRow: 48 {
        /// What the end point is sent.
        bits: u64,
        /// Period of the periodic timer, which the kernel re-arms; 0 for a device.
        period_ticks: u64,
        /// Clients by number of the server, the default one among them.
        clients: u64,
        /// INTID.
        intid: u32,
        /// End point.
        end_point: u16,
        /// Server that pays for the top half.
        server: u16,
        /// Server that is charged when no client expects it, or [`crate::NONE`].
        default_client: u16,
        /// The device signals it by an edge, 1, or by a level, 0.
        edge: u16,
        /// Zero.
        reserved: [u16; 2],
        /// Zero.
        more: u64,
    }

    /// A wire: the way of notifications to another instance, or from one, over the memory of a channel.
    WireRow: 32 {
        /// Address of the channel's window; 0 of one that only rings, for a channel whose memory a component has.
        window: u64,
        /// Of one whose entries are taken here: INTID of the channel's doorbell; otherwise 0.
        intid: u32,
        /// Of one that is written here: what the partition's doorbell is called by; otherwise all ones.
        doorbell: u32,
        /// First of its exports.
        first_export: u32,
        /// Its exports: what may be sent to, by who writes it.
        exports: u32,
        /// Server that pays for taking entries; of one that is written here [`crate::NONE`].
        server: u16,
        /// It is written here, 1, or its entries are taken here, 0.
        source: u16,
        /// Zero.
        reserved: u32,
    }

    /// An end point that another instance may send to.
    ExportRow: 16 {
        /// Bits that may be set.
        bits: u64,
        /// End point; [`crate::NONE`] where it is the other instance's.
        end_point: u16,
        /// Zero.
        reserved: [u16; 3],
    }

    /// A quota.
    QuotaRow: 24 {
        /// Pages of the pool. All quotas of the host together have as many as there are.
        pages: u32,
        /// Zero.
        reserved: u32,
        /// Components.
        components: u16,
        /// Threads.
        threads: u16,
        /// End points.
        end_points: u16,
        /// Temporal capabilities.
        tcaps: u16,
        /// Regions of memory.
        regions: u16,
        /// Component whose it is.
        component: u16,
        /// Programs of which processes may be made from it, a bit each.
        programs: u32,
    }

    /// A region of memory that the host made.
    RegionRow: 16 {
        /// Physical address of its first page.
        physical: u64,
        /// Pages.
        pages: u32,
        /// Zero.
        reserved: u32,
    }

    /// A program of which processes are made.
    ProgramRow: 48 {
        /// First instruction.
        entry: u64,
        /// Its name, zero-filled.
        name: [u8; 16],
        /// First of its segments.
        first_segment: u32,
        /// Its segments, at most [`crate::MAX_SEGMENTS`].
        segments: u32,
        /// Pages of its first thread's stack, below [`crate::image::COMPONENT_STACKS`].
        stack_pages: u32,
        /// Pages of the pool that a process of it has when it starts: stack, writable data and translation tables.
        pages: u32,
        /// Its processes use floating point, 1; otherwise its use is a fault, 0.
        floating_point: u32,
        /// Zero.
        reserved: u32,
    }

    /// A device whose registers a component has.
    DeviceRow: 40 {
        /// Its name, zero-filled.
        name: [u8; 16],
        /// Physical address of its registers.
        physical: u64,
        /// Where the component finds them.
        address: u64,
        /// Pages.
        pages: u32,
        /// Component.
        component: u16,
        /// It reads and writes all memory of the partition by itself, or of the machine, 1: who wrote the description trusts the component with that. Otherwise
        /// it reaches what it is said to, or nothing, 0.
        reaches_all: u16,
    }

    /// A port of a component: one end of a channel of the partition, whose window the component has.
    PortRow: 72 {
        /// Its name, zero-filled.
        name: [u8; 16],
        /// Address of the channel's window for the kernel.
        physical: u64,
        /// Where the component finds it.
        address: u64,
        /// Address of the [`crate::image::Port`] in the component that its program reads; 0 where it reads none.
        record: u64,
        /// Pages of the window.
        pages: u32,
        /// Payload bytes of a message.
        message_bytes: u32,
        /// Slots: four of a sampling port, the depth of a queuing one.
        slots: u32,
        /// Of one that is read: INTID of the channel's doorbell; 0 without one, and of one that is written.
        intid: u32,
        /// 1 sampling, 2 queuing.
        kind: u16,
        /// The component writes it, 1, or reads it, 0.
        source: u16,
        /// Component.
        component: u16,
        /// Of one that is written: the wire that rings the channel's doorbell, which has no window; [`crate::NONE`] without one, and of one that is read.
        wire: u16,
        /// Zero.
        reserved: u64,
    }

    /// Writable data of a component of the host, whole pages, and what they begin with: a reset makes them so again.
    DataRow: 32 {
        /// Physical address of the first page, which the component maps, and the kernel if it restores it.
        physical: u64,
        /// Physical address of a copy of the first pages, which the kernel alone maps and nobody writes; 0 without one.
        kept: u64,
        /// Pages.
        pages: u32,
        /// Pages of the copy; those behind them begin as zeros.
        kept_pages: u32,
        /// Component.
        component: u16,
        /// A reset leaves them as they are, 1, or restores them, 0.
        outlives: u16,
        /// Zero.
        reserved: u32,
    }

    /// What a thread or a server is called, for who looks at an instance: the kernel reads no name but components'.
    NameRow: 16 {
        /// Its name, zero-filled.
        name: [u8; 16],
    }

    /// A segment of a program, whole pages.
    SegmentRow: 24 {
        /// First address.
        address: u64,
        /// Physical address of its bytes in the image.
        physical: u64,
        /// Pages.
        pages: u32,
        /// Rights to its memory, as a capability has them. Writable pages are copied for each process, others are shared.
        rights: u32,
    }
}
