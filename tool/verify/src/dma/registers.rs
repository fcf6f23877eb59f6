//! Registers of the SMMUv3 and of PCI functions, from the manuals and not from the planner.

/// Arm SMMUv3 (IHI 0070), 6.3: register page 0.
pub(crate) mod smmu {
    pub(crate) const IDR0: u64 = 0x00;
    pub(crate) const IDR1: u64 = 0x04;
    pub(crate) const IDR5: u64 = 0x14;
    pub(crate) const CR0: u64 = 0x20;
    pub(crate) const CR0ACK: u64 = 0x24;
    pub(crate) const CR1: u64 = 0x28;
    pub(crate) const CR2: u64 = 0x2c;
    pub(crate) const IRQ_CTRL: u64 = 0x50;
    pub(crate) const IRQ_CTRLACK: u64 = 0x54;
    pub(crate) const STRTAB_BASE: u64 = 0x80;
    pub(crate) const STRTAB_BASE_CFG: u64 = 0x88;
    pub(crate) const CMDQ_BASE: u64 = 0x90;
    pub(crate) const CMDQ_PROD: u64 = 0x98;
    pub(crate) const CMDQ_CONS: u64 = 0x9c;
    pub(crate) const EVENTQ_BASE: u64 = 0xa0;
    /// Register page 1.
    pub(crate) const PAGE_1: u64 = 0x1_0000;
    pub(crate) const EVENTQ_PROD: u64 = PAGE_1 + 0xa8;
    pub(crate) const EVENTQ_CONS: u64 = PAGE_1 + 0xac;
    /// Both pages.
    pub(crate) const BYTES: u64 = 0x2_0000;

    /// CR0: translation, event queue, command queue.
    pub(crate) const SMMUEN: u64 = 1;
    pub(crate) const EVENTQEN: u64 = 1 << 2;
    pub(crate) const CMDQEN: u64 = 1 << 3;
    /// Bits of CR0 that scripts use or must keep off: the page request queue too.
    pub(crate) const CR0_BITS: u64 = 0xf;
    /// IRQ_CTRL: all interrupts.
    pub(crate) const INTERRUPTS: u64 = 7;
    /// CMDQ_CONS: the index with its wrap, and what was wrong with a command.
    pub(crate) const COMMANDS_DONE: u64 = 0x7f00_001f;
    /// CR1: tables and queues inner shareable, write-back.
    pub(crate) const CR1_VALUE: u64 = 0xd75;

    /// STRTAB_BASE.RA, CMDQ_BASE.RA, EVENTQ_BASE.WA: an allocation hint.
    pub(crate) const HINT: u64 = 1 << 62;
    /// 512 streams in a linear table.
    pub(crate) const STREAMS_LOG2: u64 = 9;
    /// Entries of the command queue.
    pub(crate) const COMMANDS_LOG2: u64 = 4;

    /// IDR0: stage 2, stage 1, AArch64 tables, coherent walks.
    pub(crate) const IDR0_S2P: u64 = 1;
    pub(crate) const IDR0_S1P: u64 = 1 << 1;
    pub(crate) const IDR0_AARCH64: u64 = 1 << 3;
    pub(crate) const IDR0_COHACC: u64 = 1 << 4;
    /// IDR1.SIDSIZE.
    pub(crate) const IDR1_SIDSIZE: u64 = 0x3f;
    /// IDR5: 4 KiB granule, output size (2 = 40 bits).
    pub(crate) const IDR5_GRAN4K: u64 = 1 << 4;
    pub(crate) const IDR5_OAS: u64 = 7;

    /// Commands (4.1): configuration, translations, and an end that is waited for.
    pub(crate) const CFGI_ALL: [u64; 2] = [0x04, 31];
    pub(crate) const TLBI_NSNH_ALL: [u64; 2] = [0x30, 0];
    pub(crate) const SYNC: [u64; 2] = [0x46, 0];
}

/// PCI Local Bus 3.0, 6.1; PCI Express base specification, 7.5.
pub(crate) mod pci {
    pub(crate) const IDENTITY: u64 = 0x00;
    pub(crate) const COMMAND: u64 = 0x04;
    pub(crate) const CLASS: u64 = 0x08;
    /// Header type, without the bit for several functions.
    pub(crate) const HEADER_TYPE: u64 = 0x0e;
    pub(crate) const TYPE: u64 = 0x7f;
    pub(crate) const BASE_ADDRESS_0: u64 = 0x10;
    pub(crate) const BASE_ADDRESS_END: u64 = 0x28;
    /// A bridge's bus numbers; its windows end before the capabilities.
    pub(crate) const BUS_NUMBERS: u64 = 0x18;
    /// From bus 0 to bus 1, and no further.
    pub(crate) const BUS_1: u64 = 0x1_0100;
    /// Its windows of ports, memory and prefetchable memory: offset and bytes.
    pub(crate) const WINDOWS: [(u64, u64); 3] = [(0x1c, 2), (0x20, 4), (0x24, 4)];
    pub(crate) const CAPABILITIES: u64 = 0x40;
    pub(crate) const EXTENDED: u64 = 0x100;
    /// Command: memory, master, INTx silent.
    pub(crate) const MEMORY: u64 = 1 << 1;
    pub(crate) const MASTER: u64 = 1 << 2;
    pub(crate) const SILENT: u64 = 1 << 10;
    /// Device control: initiate a function-level reset. Device status follows it, with: transactions are pending.
    pub(crate) const RESET: u64 = 1 << 15;
    pub(crate) const PENDING: u64 = 1 << 5;
}
