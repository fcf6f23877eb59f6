//! Boot tables: what the host decided, as rows that the kernel casts and copies into its objects (`kernel.md` 8).
//!
//! [`Tables::read`] is all the parsing there is: it compares magic, version and checksum, and that each span lies inside. Whether the rows
//! make sense is for the host to decide and `bulkhead verify` to show; a kernel that finds a number out of range has no such object and
//! goes without it.

mod rows;

pub use rows::{
    BandRow, BindingRow, ComponentRow, DataRow, DeviceRow, EndPointRow, EntryRow, ExportRow, NameRow, PortRow,
    ProgramRow, QuotaRow, RegionRow, SchedulerRow, SegmentRow, ServerRow, StackRow, TcapRow, ThreadRow, WireRow,
};

use crate::{Capability, KERNEL_ABI_VERSION};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of the boot tables.
pub const BOOT_MAGIC: u64 = u64::from_le_bytes(*b"BHKBOOT1");
/// Alignment of the tables in memory and of each span in them: that of a capability.
pub const ALIGNMENT: usize = 16;
/// First byte that the checksum covers: all behind magic, version and the checksum itself.
pub const CHECKSUM_FROM: usize = 16;

/// Rows of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Span {
    /// Bytes from the header's first one; a multiple of [`ALIGNMENT`].
    pub offset: u32,
    /// Rows.
    pub count: u32,
}

/// Head of the boot tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BootHeader {
    /// [`BOOT_MAGIC`].
    pub magic: u64,
    /// [`KERNEL_ABI_VERSION`].
    pub abi_version: u32,
    /// CRC-32C of the bytes from [`CHECKSUM_FROM`] to [`Self::bytes`].
    pub crc: u32,
    /// Bytes of header and tables.
    pub bytes: u64,
    /// Which kernel it is: the first eight bytes of its text's hash.
    pub kernel_build: u64,
    /// [`ComponentRow`]s.
    pub components: Span,
    /// [`EntryRow`]s of all components.
    pub entries: Span,
    /// [`StackRow`]s of all components.
    pub stacks: Span,
    /// [`Capability`] slots of all components.
    pub capabilities: Span,
    /// [`ThreadRow`]s.
    pub threads: Span,
    /// [`ServerRow`]s.
    pub servers: Span,
    /// [`BandRow`]s.
    pub bands: Span,
    /// [`SchedulerRow`]s.
    pub schedulers: Span,
    /// [`TcapRow`]s.
    pub tcaps: Span,
    /// [`EndPointRow`]s.
    pub end_points: Span,
    /// [`BindingRow`]s.
    pub bindings: Span,
    /// [`WireRow`]s.
    pub wires: Span,
    /// [`ExportRow`]s of all wires.
    pub exports: Span,
    /// [`QuotaRow`]s.
    pub quotas: Span,
    /// [`RegionRow`]s.
    pub regions: Span,
    /// [`ProgramRow`]s.
    pub programs: Span,
    /// [`SegmentRow`]s of all programs.
    pub segments: Span,
    /// [`DeviceRow`]s.
    pub devices: Span,
    /// [`PortRow`]s.
    pub ports: Span,
    /// [`DataRow`]s of all components, in their order.
    pub data: Span,
    /// [`NameRow`]s of the threads and, behind them, of the servers; or none at all.
    pub names: Span,
    /// Physical address of the pool, whose pages nobody has at boot.
    pub pool_address: u64,
    /// Its pages.
    pub pool_pages: u32,
    /// Threads, from the first one on, whose floating-point registers have a place, of [`crate::FLOATING_POINT_BYTES`] each; 0 where no component and no program
    /// declares them.
    pub floating_point_threads: u32,
    /// Physical address of these places; 0 without any.
    pub floating_point_address: u64,
}

const _: () = assert!(size_of::<BootHeader>() == 32 + 21 * 8 + 24);
const _: () = assert!(size_of::<BootHeader>().is_multiple_of(ALIGNMENT));

/// Why boot tables are not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootError {
    /// They end before the header or what it says does, or do not begin where a capability may.
    Truncated,
    /// They begin with something else.
    Magic,
    /// They were written for another version.
    Version(u32),
    /// A byte is not what was written.
    Checksum,
    /// A span does not lie inside, or not where its rows may: its place among the header's spans.
    Span(u8),
}

/// Boot tables that were read.
#[derive(Clone, Copy, Debug)]
pub struct Tables<'a> {
    /// The header.
    pub header: &'a BootHeader,
    /// By number of the component.
    pub components: &'a [ComponentRow],
    /// Of all components, one after the other.
    pub entries: &'a [EntryRow],
    /// Of all components.
    pub stacks: &'a [StackRow],
    /// Slots of all components.
    pub capabilities: &'a [Capability],
    /// By number of the thread.
    pub threads: &'a [ThreadRow],
    /// By number of the server.
    pub servers: &'a [ServerRow],
    /// By number of the band.
    pub bands: &'a [BandRow],
    /// By number of the scheduler.
    pub schedulers: &'a [SchedulerRow],
    /// By number of the temporal capability.
    pub tcaps: &'a [TcapRow],
    /// By number of the end point.
    pub end_points: &'a [EndPointRow],
    /// By number of the binding.
    pub bindings: &'a [BindingRow],
    /// By number of the wire.
    pub wires: &'a [WireRow],
    /// Of all wires.
    pub exports: &'a [ExportRow],
    /// By number of the quota.
    pub quotas: &'a [QuotaRow],
    /// By number of the region.
    pub regions: &'a [RegionRow],
    /// By number of the program.
    pub programs: &'a [ProgramRow],
    /// Of all programs.
    pub segments: &'a [SegmentRow],
    /// Of all components; for who looks at an instance, since the kernel has nothing to do with them.
    pub devices: &'a [DeviceRow],
    /// The same of ports.
    pub ports: &'a [PortRow],
    /// Of all components.
    pub data: &'a [DataRow],
    /// Of the threads and of the servers, or none.
    pub names: &'a [NameRow],
}

impl<'a> Tables<'a> {
    /// Casts boot tables. `crc32c` is the reader's own.
    ///
    /// # Errors
    /// What is wrong with them; nothing was read but that.
    pub fn read(bytes: &'a [u8], crc32c: impl FnOnce(&[u8]) -> u32) -> Result<Self, BootError> {
        let (header, _) = BootHeader::ref_from_prefix(bytes).map_err(|_| BootError::Truncated)?;
        if header.magic != BOOT_MAGIC {
            return Err(BootError::Magic);
        }
        if header.abi_version != KERNEL_ABI_VERSION {
            return Err(BootError::Version(header.abi_version));
        }
        let length = usize::try_from(header.bytes).map_err(|_| BootError::Truncated)?;
        let bytes = bytes.get(..length).ok_or(BootError::Truncated)?;
        let covered = bytes.get(CHECKSUM_FROM..).ok_or(BootError::Truncated)?;
        if crc32c(covered) != header.crc {
            return Err(BootError::Checksum);
        }
        Ok(Self {
            header,
            components: rows(bytes, header.components, 0)?,
            entries: rows(bytes, header.entries, 1)?,
            stacks: rows(bytes, header.stacks, 2)?,
            capabilities: rows(bytes, header.capabilities, 3)?,
            threads: rows(bytes, header.threads, 4)?,
            servers: rows(bytes, header.servers, 5)?,
            bands: rows(bytes, header.bands, 6)?,
            schedulers: rows(bytes, header.schedulers, 7)?,
            tcaps: rows(bytes, header.tcaps, 8)?,
            end_points: rows(bytes, header.end_points, 9)?,
            bindings: rows(bytes, header.bindings, 10)?,
            wires: rows(bytes, header.wires, 11)?,
            exports: rows(bytes, header.exports, 12)?,
            quotas: rows(bytes, header.quotas, 13)?,
            regions: rows(bytes, header.regions, 14)?,
            programs: rows(bytes, header.programs, 15)?,
            segments: rows(bytes, header.segments, 16)?,
            devices: rows(bytes, header.devices, 17)?,
            ports: rows(bytes, header.ports, 18)?,
            data: rows(bytes, header.data, 19)?,
            names: rows(bytes, header.names, 20)?,
        })
    }

    /// The capability slots of a component; none when its row says what is not there.
    #[must_use]
    pub fn slots(&self, component: &ComponentRow) -> &'a [Capability] {
        part(self.capabilities, component.first_slot, component.slots)
    }

    /// Names of threads, and of servers, in their order; empty ones of an instance that has none.
    #[must_use]
    pub fn names(&self) -> [&'a [NameRow]; 2] {
        let (threads, servers) = self.names.split_at_checked(self.threads.len()).unwrap_or_default();
        [threads, servers]
    }

    /// The entries of a component.
    #[must_use]
    pub fn entries(&self, component: &ComponentRow) -> &'a [EntryRow] {
        part(self.entries, component.first_entry, component.entries)
    }

    /// The stacks for callers of a component.
    #[must_use]
    pub fn stacks(&self, component: &ComponentRow) -> &'a [StackRow] {
        part(self.stacks, component.first_stack, component.stacks)
    }
}

fn part<T>(rows: &[T], first: u32, count: u32) -> &[T] {
    rows.get(first as usize..).and_then(|rows| rows.get(..count as usize)).unwrap_or(&[])
}

fn rows<T: FromBytes + Immutable + KnownLayout>(bytes: &[u8], span: Span, place: u8) -> Result<&[T], BootError> {
    let wrong = BootError::Span(place);
    let from = bytes.get(span.offset as usize..).ok_or(wrong)?;
    let (rows, _) = <[T]>::ref_from_prefix_with_elems(from, span.count as usize).map_err(|_| wrong)?;
    Ok(rows)
}
