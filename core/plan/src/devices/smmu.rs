//! The SMMUv3 as the plan writes it: stream table, context descriptors, device tables and commands, bit by bit.
//!
//! A partition's mapping never changes, so all of it is decided here and the boot core only says where it is. Sections are those of the
//! Arm System Memory Management Unit Architecture Specification, version 3 (IHI 0070). No command is issued after boot.

use crate::tables::{Attributes, Mapping};
use alloc::vec;
use alloc::vec::Vec;
use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::devices::EVENT_ENTRIES;
use bulkhead_arm::el2::{self, GUEST_ADDRESS_BITS};

/// Registers, by offset from page 0 (6.2, 6.3).
pub mod register {
    /// SMMU_IDR0: stages, table formats, coherence.
    pub const IDR0: u64 = 0x0;
    /// SMMU_IDR1: bits of a StreamID.
    pub const IDR1: u64 = 0x4;
    /// SMMU_IDR5: bits of an output address, granules.
    pub const IDR5: u64 = 0x14;
    /// SMMU_CR0: what is on.
    pub const CR0: u64 = 0x20;
    /// SMMU_CR0ACK: what of that has come into effect.
    pub const CR0ACK: u64 = 0x24;
    /// SMMU_CR1: how tables and queues are read.
    pub const CR1: u64 = 0x28;
    /// SMMU_CR2: what is recorded and heard.
    pub const CR2: u64 = 0x2c;
    /// SMMU_IRQ_CTRL: interrupts.
    pub const IRQ_CTRL: u64 = 0x50;
    /// SMMU_IRQ_CTRLACK: which of them have come into effect.
    pub const IRQ_CTRLACK: u64 = 0x54;
    /// SMMU_STRTAB_BASE, 64 bits: the stream table.
    pub const STRTAB_BASE: u64 = 0x80;
    /// SMMU_STRTAB_BASE_CFG: its form and size.
    pub const STRTAB_BASE_CFG: u64 = 0x88;
    /// SMMU_CMDQ_BASE, 64 bits: the command queue and its size.
    pub const CMDQ_BASE: u64 = 0x90;
    /// SMMU_CMDQ_PROD: the next command to be written.
    pub const CMDQ_PROD: u64 = 0x98;
    /// SMMU_CMDQ_CONS: the next command to be done, and what was wrong with one.
    pub const CMDQ_CONS: u64 = 0x9c;
    /// SMMU_EVENTQ_BASE, 64 bits: the event queue and its size.
    pub const EVENTQ_BASE: u64 = 0xa0;
    /// Page 1, which has the indices of the event queue and no other register that this plan uses (6.1).
    pub const PAGE_1: u64 = 0x1_0000;
    /// SMMU_EVENTQ_PROD: the next event to be written, in page 1.
    pub const EVENTQ_PROD: u64 = PAGE_1 + 0xa8;
    /// SMMU_EVENTQ_CONS: the next event to be read, in page 1.
    pub const EVENTQ_CONS: u64 = PAGE_1 + 0xac;
}

/// SMMU_IDR0.S2P: stage 2 is there (6.3.1).
pub const IDR0_S2P: u64 = 1;
/// SMMU_IDR0.S1P: stage 1 is there.
pub const IDR0_S1P: u64 = 1 << 1;
/// SMMU_IDR0.TTF, upper bit: AArch64 tables are read, alone (2) or beside AArch32's (3).
pub const IDR0_AARCH64: u64 = 1 << 3;
/// SMMU_IDR0.COHACC: tables and queues are read through the caches.
pub const IDR0_COHERENT: u64 = 1 << 4;
/// SMMU_IDR1.SIDSIZE 5:0, its upper bits (6.3.2).
pub const IDR1_SIDSIZE_UPPER: u64 = 0x30;
/// A StreamID has 16 to 31 bits.
pub const IDR1_SIDSIZE_16: u64 = 0x10;
/// SMMU_IDR5.OAS 2:0, its upper bit: an output address has 44 bits or more (6.3.6).
pub const IDR5_OAS_44: u64 = 1 << 2;
/// SMMU_IDR5.GRAN4K: pages of 4 KiB.
pub const IDR5_GRANULE_4K: u64 = 1 << 4;

/// SMMU_CR0.SMMUEN: streams are translated (6.3.9).
pub const CR0_TRANSLATE: u64 = 1;
/// SMMU_CR0.EVENTQEN: events are recorded.
pub const CR0_EVENTS: u64 = 1 << 2;
/// SMMU_CR0.CMDQEN: commands are done.
pub const CR0_COMMANDS: u64 = 1 << 3;
/// SMMU_CR1: TABLE_SH 11:10 and QUEUE_SH 5:4 inner shareable; TABLE_OC 9:8, TABLE_IC 7:6, QUEUE_OC 3:2 and QUEUE_IC 1:0 write-back (6.3.11).
pub const CR1_CACHED: u64 = 3 << 10 | 1 << 8 | 1 << 6 | 3 << 4 | 1 << 2 | 1;

/// SMMU_STRTAB_BASE.RA: reads allocate.
pub const STRTAB_BASE_ALLOCATE: u64 = 1 << 62;
/// SMMU_STRTAB_BASE_CFG.LOG2SIZE 5:0 of a linear table (FMT 17:16 = 0): StreamIDs of buses 0 and 1.
pub const STREAM_BITS: u32 = 9;
/// Entries of the stream table.
pub const STREAM_ENTRIES: usize = 1 << STREAM_BITS;
/// 64-bit words of one.
pub const STREAM_WORDS: usize = 8;
/// Bytes of the stream table, and what it must be aligned to (6.3, SMMU_STRTAB_BASE.ADDR).
pub const STREAM_TABLE_BYTES: u64 = (STREAM_ENTRIES * STREAM_WORDS * 8) as u64;

/// SMMU_CMDQ_BASE.LOG2SIZE 4:0: 16 commands.
pub const COMMAND_BITS: u64 = 4;
/// Bytes of the command queue, and what it must be aligned to.
pub const COMMAND_BYTES: u64 = 16 << COMMAND_BITS;
/// SMMU_EVENTQ_BASE.LOG2SIZE 4:0.
pub const EVENT_BITS: u64 = EVENT_ENTRIES.trailing_zeros() as u64;

/// SMMU_CMDQ_CONS: RD 19:0, and ERR 30:24, which is zero while all is well.
pub const COMMANDS_DONE: u64 = 0x7f0f_ffff;
/// The commands of the queue (4.3, 4.4, 4.7): CMD_CFGI_STE_RANGE with range 31, which is CMD_CFGI_ALL; CMD_TLBI_NSNH_ALL; and CMD_SYNC,
/// which signals nobody.
pub const COMMANDS: [[u64; 2]; 3] = [[0x04, 31], [0x30, 0], [0x46, 0]];

/// STE.V and CD.V sit in word 0; an entry that is valid and says nothing else (Config 0) aborts silently (5.2).
pub const STREAM_ABORTS: [u64; STREAM_WORDS] = [1, 0, 0, 0, 0, 0, 0, 0];
/// STE.Config 3:1 = 5: stage 1 alone.
const CONFIG_STAGE_1: u64 = 0b101 << 1;
/// STE.Config 3:1 = 6: stage 2 alone.
const CONFIG_STAGE_2: u64 = 0b110 << 1;
const VALID: u64 = 1;
/// STE.S1CIR 3:2 and S1COR 5:4 write-back, S1CSH 7:6 inner shareable: how the context descriptor is read.
const DESCRIPTOR_CACHED: u64 = 1 << 2 | 1 << 4 | 3 << 6;
/// STE.SHCFG 45:44 = 1: shareability as the function says.
const SHAREABILITY_INCOMING: u64 = 1 << 44;
/// STE word 2: S2T0SZ, S2SL0, S2IR0, S2OR0, S2SH0, S2TG and S2PS lie as in VTCR_EL2 18:0, from bit 32 on.
const STAGE_2_FIELDS: u64 = 0x7_ffff;
/// STE.S2AA64, S2AFFD (no access-flag faults) and S2R (faults are recorded), in word 2.
const STAGE_2_FLAGS: u64 = 1 << 51 | 1 << 53 | 1 << 58;

/// Returns the entry of a stream that goes through the device tables of a context descriptor.
#[must_use]
pub const fn stream_stage_1(descriptor: PhysicalAddress) -> [u64; STREAM_WORDS] {
    [descriptor.0 | CONFIG_STAGE_1 | VALID, DESCRIPTOR_CACHED | SHAREABILITY_INCOMING, 0, 0, 0, 0, 0, 0]
}

/// Returns the entry of a stream that goes through the stage 2 of its partition.
#[must_use]
pub const fn stream_stage_2(root: PhysicalAddress, vmid: u64, physical_address_bits: u32) -> [u64; STREAM_WORDS] {
    let fields = (el2::vtcr(physical_address_bits) & STAGE_2_FIELDS) << 32;
    [CONFIG_STAGE_2 | VALID, SHAREABILITY_INCOMING, vmid | fields | STAGE_2_FLAGS, root.0, 0, 0, 0, 0]
}

/// CD word 0 without T0SZ, IPS and ASID (5.4): IR0 9:8 and OR0 11:10 write-back, SH0 13:12 inner shareable, EPD1 (no second table), V, AA64,
/// R (faults are recorded), A (and abort), ASET (the ASID is not the processors'). TG0 7:6 is zero: 4 KiB. S, HA and HD must be zero.
const CONTEXT: u64 = 1 << 8 | 1 << 10 | 3 << 12 | 1 << 30 | 1 << 31 | 1 << 41 | 1 << 45 | 1 << 46 | 1 << 47;
/// CD.MAIR0, attribute 0: Normal, write-back, allocating.
const WRITE_BACK: u64 = 0xff;

/// Returns a context descriptor: device tables, their ASID and how many bits a physical address has.
#[must_use]
pub const fn context(tables: PhysicalAddress, asid: u64, physical_address_bits: u32) -> [u64; STREAM_WORDS] {
    let input = 64 - GUEST_ADDRESS_BITS as u64;
    let output = el2::vtcr(physical_address_bits) >> 16 & 7;
    [CONTEXT | input | output << 32 | asid << 48, tables.0, 0, WRITE_BACK, 0, 0, 0, 0]
}

/// Leaves of device tables: AP\[1\] (a function is not privileged), inner shareable, AF, nG (it has an ASID), PXN and UXN; attribute 0 (Arm ARM D8.3).
pub const DEVICE_RAM: Attributes = Attributes(1 << 6 | 3 << 8 | 1 << 10 | 1 << 11 | 3 << 53);

/// Returns the stream table, streams without an entry aborting.
#[must_use]
pub fn stream_table(entries: impl Iterator<Item = (u32, [u64; STREAM_WORDS])>) -> Vec<u8> {
    let mut table = vec![STREAM_ABORTS; STREAM_ENTRIES];
    for (stream, entry) in entries {
        if let Some(slot) = usize::try_from(stream).ok().and_then(|stream| table.get_mut(stream)) {
            *slot = entry;
        }
    }
    table.into_iter().flatten().flat_map(u64::to_le_bytes).collect()
}

/// Returns the page of the command queue and the context descriptors behind it.
#[must_use]
pub fn commands_and_contexts(contexts: &[[u64; STREAM_WORDS]]) -> Vec<u8> {
    let mut bytes: Vec<u8> = COMMANDS.into_iter().flatten().flat_map(u64::to_le_bytes).collect();
    bytes.resize(usize::try_from(COMMAND_BYTES).unwrap_or(0), 0);
    bytes.extend(contexts.iter().flatten().copied().flat_map(u64::to_le_bytes));
    bytes
}

/// Returns where a context descriptor is in that page.
#[must_use]
pub const fn context_offset(context: usize) -> u64 {
    COMMAND_BYTES + (context * STREAM_WORDS * 8) as u64
}

/// Returns a piece of a partition's RAM as its functions see it: at the guest's addresses.
#[must_use]
pub const fn device_ram(guest: u64, physical: u64, bytes: u64) -> Mapping {
    Mapping { input: guest, output: PhysicalAddress(physical), bytes, attributes: DEVICE_RAM }
}
