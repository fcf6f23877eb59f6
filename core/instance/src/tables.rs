//! The boot tables as bytes: header, then spans of rows.

use bulkhead_kernel_abi::boot::{
    ALIGNMENT, BOOT_MAGIC, BandRow, BindingRow, BootHeader, CHECKSUM_FROM, ComponentRow, DataRow, DeviceRow,
    EndPointRow, EntryRow, ExportRow, NameRow, PortRow, ProgramRow, QuotaRow, SchedulerRow, SegmentRow, ServerRow,
    Span, StackRow, TcapRow, ThreadRow, WireRow,
};
use bulkhead_kernel_abi::{Capability, KERNEL_ABI_VERSION};
use crc::{CRC_32_ISCSI, Crc, Table};
use zerocopy::{Immutable, IntoBytes};

static CASTAGNOLI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// CRC-32C of some bytes and others behind them.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut digest = CASTAGNOLI.digest();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
}

/// What the boot tables say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) kernel_build: u64,
    pub(crate) components: Vec<ComponentRow>,
    pub(crate) entries: Vec<EntryRow>,
    pub(crate) stacks: Vec<StackRow>,
    pub(crate) capabilities: Vec<Capability>,
    pub(crate) threads: Vec<ThreadRow>,
    pub(crate) servers: Vec<ServerRow>,
    pub(crate) bands: Vec<BandRow>,
    pub(crate) schedulers: Vec<SchedulerRow>,
    pub(crate) tcaps: Vec<TcapRow>,
    pub(crate) end_points: Vec<EndPointRow>,
    pub(crate) bindings: Vec<BindingRow>,
    pub(crate) wires: Vec<WireRow>,
    pub(crate) exports: Vec<ExportRow>,
    pub(crate) devices: Vec<DeviceRow>,
    pub(crate) ports: Vec<PortRow>,
    pub(crate) data: Vec<DataRow>,
    pub(crate) names: Vec<NameRow>,
    pub(crate) quotas: Vec<QuotaRow>,
    pub(crate) programs: Vec<ProgramRow>,
    pub(crate) segments: Vec<SegmentRow>,
    /// Physical address of the pool, and its pages.
    pub(crate) pool: (u64, u32),
    /// Physical address of the places of floating-point registers, and of how many threads.
    pub(crate) floating_point: (u64, u32),
}

impl Rows {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; size_of::<BootHeader>()];
        let mut header = BootHeader {
            magic: BOOT_MAGIC,
            abi_version: KERNEL_ABI_VERSION,
            kernel_build: self.kernel_build,
            components: append(&mut bytes, &self.components),
            entries: append(&mut bytes, &self.entries),
            stacks: append(&mut bytes, &self.stacks),
            capabilities: append(&mut bytes, &self.capabilities),
            threads: append(&mut bytes, &self.threads),
            servers: append(&mut bytes, &self.servers),
            bands: append(&mut bytes, &self.bands),
            schedulers: append(&mut bytes, &self.schedulers),
            tcaps: append(&mut bytes, &self.tcaps),
            end_points: append(&mut bytes, &self.end_points),
            bindings: append(&mut bytes, &self.bindings),
            wires: append(&mut bytes, &self.wires),
            exports: append(&mut bytes, &self.exports),
            devices: append(&mut bytes, &self.devices),
            ports: append(&mut bytes, &self.ports),
            data: append(&mut bytes, &self.data),
            names: append(&mut bytes, &self.names),
            quotas: append(&mut bytes, &self.quotas),
            programs: append(&mut bytes, &self.programs),
            segments: append(&mut bytes, &self.segments),
            pool_address: self.pool.0,
            pool_pages: self.pool.1,
            floating_point_address: self.floating_point.0,
            floating_point_threads: self.floating_point.1,
            ..BootHeader::default()
        };
        header.bytes = bytes.len() as u64;
        bytes[..size_of::<BootHeader>()].copy_from_slice(header.as_bytes());
        header.crc = crc32c(&[&bytes[CHECKSUM_FROM..]]);
        bytes[..size_of::<BootHeader>()].copy_from_slice(header.as_bytes());
        bytes
    }
}

fn append<T: IntoBytes + Immutable>(bytes: &mut Vec<u8>, rows: &[T]) -> Span {
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    let span = Span { offset: bytes.len() as u32, count: rows.len() as u32 };
    bytes.extend_from_slice(rows.as_bytes());
    span
}
