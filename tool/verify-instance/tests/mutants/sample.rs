//! A small instance: a kernel that is none, two components with two threads and one, and a third one that others call.

use bulkhead_instance::{
    Callers, Component, Device, Import, Instance, Port, ProcessProgram, Processes, Thread, Wire, WireEnd, write,
};
use bulkhead_kernel_abi::boot::{BindingRow, BootHeader, CHECKSUM_FROM, EndPointRow, ExportRow, QuotaRow, ServerRow};
use bulkhead_kernel_abi::capability::{entry_word, remote_word, right};
use bulkhead_kernel_abi::image::{
    COMPONENT_MAGIC, COMPONENT_TEXT, ComponentHead, EXPORTS, Function, Head, IMPORTS, KERNEL_HALF, LOAD,
    OUTLIVES_RESET, PortUse, function_name,
};
use bulkhead_kernel_abi::{Capability, KERNEL_ABI_VERSION, Kind, NONE};
use bulkhead_verify_instance::Expected;
use core::mem::offset_of;
use elf::elf;
use zerocopy::{FromBytes, IntoBytes};

#[path = "../support/elf.rs"]
mod elf;

pub(crate) const PAGE: usize = 4096;
/// The device of the first component, which the systems of the tests have as well.
pub(crate) const REGISTERS: u64 = 0x0903_0000;
/// Text, constants, an empty page, two pages of data.
const KERNEL_PAGES: usize = 5;
/// Where the head and the boot tables are.
pub(crate) const HEAD: usize = KERNEL_PAGES * PAGE;
pub(crate) const TABLES: usize = HEAD + PAGE;

/// The kernel's text: the header of an arm64 Image, without its length.
fn text() -> Vec<u8> {
    let mut text = vec![0; PAGE];
    for (place, value) in [(8, LOAD & 0x1f_ffff), (24, 2), (56, u64::from(u32::from_le_bytes(*b"ARM\x64")))] {
        text[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }
    text
}

/// The kernel that the sample has.
pub(crate) fn expected() -> Expected {
    Expected::of(&text(), HEAD as u64)
}

/// The kernel's file.
pub(crate) fn kernel() -> Vec<u8> {
    let base = KERNEL_HALF + LOAD;
    elf(base, &[(base, 5, &text(), 4096), (base + 0x1000, 4, &[7], 1), (base + 0x3000, 6, &[], 0x2000)], &[])
}

/// A program that calls nobody, with two pages of data, of which the second one is zeros, and one that outlives a reset.
pub(crate) fn program() -> Vec<u8> {
    let head = ComponentHead { magic: COMPONENT_MAGIC, abi_version: KERNEL_ABI_VERSION, reserved: 0 };
    let text = (COMPONENT_TEXT, 5, head.as_bytes(), 32);
    let (data, outlives) =
        ((COMPONENT_TEXT + 0x1000, 6, &[1][..], 0x1008), (COMPONENT_TEXT + 0x3000, 6 | OUTLIVES_RESET, &[][..], 8));
    elf(COMPONENT_TEXT + 16, &[text, data, outlives], &[])
}

/// The wire of the sample: over the channel `ticks` of the systems of the tests, as the two partitions at its ends see it.
const WIRE: u64 = 0x1012_0000;
const WIRE_OF_SENDER: u64 = 0x1010_0000;
const DOORBELL: u32 = 82;
/// The ports of the sample: the other channels of its partition.
const TELEMETRY: u64 = 0x1010_0000;
const ORDERS: u64 = 0x1011_0000;
/// Where the third component's program finds the first of them.
pub(crate) const RECORD: u64 = COMPONENT_TEXT + 0x1010;

/// The sample's bytes.
pub(crate) fn sample() -> Vec<u8> {
    let export = ExportRow { bits: 0b11, ..ExportRow::default() };
    let end = WireEnd::Destination { intid: DOORBELL, server: 1 };
    let taken = Wire { window: WIRE, end, exports: vec![export] };
    let rings = Wire { window: 0, end: WireEnd::Source { doorbell: 0 }, exports: Vec::new() };
    let telemetry = Port {
        name: "telemetry".to_owned(),
        does: PortUse::SamplingSource,
        window: TELEMETRY,
        message_bytes: 64,
        slots: 4,
        intid: 0,
        wire: 1,
        bell: 3,
        import: Some("out".to_owned()),
    };
    let orders = Port {
        name: "orders".to_owned(),
        does: PortUse::QueuingDestination,
        window: ORDERS,
        message_bytes: 200,
        slots: 16,
        wire: NONE,
        bell: 0,
        import: None,
        ..telemetry.clone()
    };
    with_wires(vec![taken, rings], Capability::NULL, vec![telemetry, orders])
}

/// One that sends to the sample by its wire.
pub(crate) fn sender() -> Vec<u8> {
    let export = ExportRow { bits: 0b11, end_point: NONE, ..ExportRow::default() };
    let remote = Capability {
        kind: Kind::RemoteSend.number(),
        rights: right::USE,
        object: 0,
        grant: 1,
        word: remote_word(0, 0b10),
    };
    let wire = Wire { window: WIRE_OF_SENDER, end: WireEnd::Source { doorbell: 0 }, exports: vec![export] };
    with_wires(vec![wire], remote, Vec::new())
}

/// An instance with wires, of which the second component has a capability, and with ports of the third one.
fn with_wires(wires: Vec<Wire>, remote: Capability, ports: Vec<Port>) -> Vec<u8> {
    let (kernel, first) = (kernel(), program());
    let head = ComponentHead { magic: COMPONENT_MAGIC, abi_version: KERNEL_ABI_VERSION, reserved: 0 };
    // Calls itself, by the word in its constants.
    let function = |name: &str, address: u64| Function { name: function_name(name), signature: 1, address };
    let exports = [function("one", COMPONENT_TEXT + 16), function("two", COMPONENT_TEXT + 20)];
    let out = Function { signature: PortUse::SamplingSource.signature(), ..function("out", RECORD) };
    let imports = [function("next", COMPONENT_TEXT + 0x1008), out];
    let third = elf(
        COMPONENT_TEXT + 16,
        &[(COMPONENT_TEXT, 5, head.as_bytes(), 32), (COMPONENT_TEXT + 0x1000, 4, &[1], 48)],
        &[(EXPORTS, exports.as_bytes()), (IMPORTS, imports[..1 + ports.len().min(1)].as_bytes())],
    );
    let capability = |kind: Kind| Capability { kind: kind.number(), rights: right::USE, grant: 1, ..Capability::NULL };
    let call = Capability { object: 2, word: entry_word(1, 0), ..capability(Kind::Call) };
    let ring = Capability { object: 1, ..capability(Kind::RemoteSend) };
    let component = |name: &str, threads: usize, capabilities: Vec<Capability>| Component {
        name: name.to_owned(),
        program: &first,
        threads: vec![Thread { argument: 0, stack_bytes: 8192, server: 0 }; threads],
        thread_names: vec!["main".to_owned(); threads],
        capabilities,
        ..Component::default()
    };
    let blank = ServerRow { holder: NONE, band: NONE, ..ServerRow::default() };
    let instance = Instance {
        server_names: ["main", "high", "io", "low"].map(str::to_owned).to_vec(),
        kernel: &kernel,
        components: vec![
            Component {
                has_accounts: true,
                floating_point: true,
                devices: vec![Device {
                    name: "gpio".to_owned(),
                    physical: REGISTERS,
                    bytes: 0x1000,
                    reaches_all: false,
                }],
                ..component("first", 2, vec![Capability::NULL, capability(Kind::Receive), capability(Kind::Interrupt)])
            },
            Component { dma_bytes: 0x2000, ..component("second", 1, vec![Capability::NULL, remote]) },
            Component {
                program: &third,
                imports: vec![Import { name: "next".to_owned(), slot: 1 }],
                callers: Callers { stacks: 2, stack_bytes: 8192 },
                ports: ports.clone(),
                ..component(
                    "third",
                    0,
                    vec![
                        Capability::NULL,
                        call,
                        Capability { object: 0, ..capability(Kind::Quota) },
                        if ports.is_empty() { Capability::NULL } else { ring },
                    ],
                )
            },
        ],
        servers: vec![
            ServerRow { background: 255, ..blank },
            ServerRow { rule: 2, budget_ticks: 50, period_ticks: 100, level: 1, background: 65, ..blank },
            // 4 % for the next one, which has the level behind its own.
            ServerRow {
                rule: 4,
                budget_ticks: 1,
                period_ticks: 25,
                smallest_chunk_ticks: 8,
                clients: 0b1000,
                level: 2,
                background: 255,
                ..blank
            },
            ServerRow { rule: 3, budget_ticks: 50, period_ticks: 200, level: 3, background: 255, ..blank },
        ],
        end_points: vec![EndPointRow { tcap: NONE, ..EndPointRow::default() }],
        shares: bulkhead_instance::Shares::default(),
        wires,
        processes: Processes {
            programs: vec![ProcessProgram {
                name: "job".to_owned(),
                file: &first,
                imports: Vec::new(),
                stack_bytes: 4096,
                floating_point: false,
            }],
            quotas: vec![QuotaRow {
                pages: 8,
                components: 1,
                threads: 1,
                component: 2,
                programs: 1,
                ..QuotaRow::default()
            }],
        },
        bindings: vec![
            BindingRow { intid: 39, bits: 1, default_client: NONE, ..BindingRow::default() },
            BindingRow {
                intid: 30,
                bits: 2,
                server: 2,
                clients: 0b1000,
                default_client: 3,
                period_ticks: 1000,
                ..BindingRow::default()
            },
        ],
    };
    write(&instance).unwrap_or_else(|error| panic!("{error}"))
}

/// An instance under change.
#[derive(Clone)]
pub(crate) struct Mutant(pub(crate) Vec<u8>);

impl Mutant {
    pub(crate) fn head(&self) -> Head {
        Head::read_from_bytes(&self.0[HEAD..HEAD + size_of::<Head>()]).expect("a head")
    }

    pub(crate) fn tables(&self) -> BootHeader {
        BootHeader::read_from_bytes(&self.0[TABLES..TABLES + size_of::<BootHeader>()]).expect("a header")
    }

    /// A row of a span, by its number.
    pub(crate) fn row<T: FromBytes + IntoBytes>(&self, offset: u32, number: usize) -> (usize, T) {
        let place = TABLES + offset as usize + number * size_of::<T>();
        (place, T::read_from_bytes(&self.0[place..place + size_of::<T>()]).expect("a row"))
    }

    pub(crate) fn put<T: IntoBytes + zerocopy::Immutable>(&mut self, place: usize, value: &T) {
        self.0[place..place + size_of::<T>()].copy_from_slice(value.as_bytes());
    }

    pub(crate) fn root(&self, component: usize) -> u64 {
        self.row::<bulkhead_kernel_abi::boot::ComponentRow>(self.tables().components.offset, component).1.root
    }

    /// Offset in the image of the entry for an address, in the tables of a root; `level` 3 for the page, 2 for the table that has it.
    pub(crate) fn entry(&self, root: u64, address: u64, level: u32) -> usize {
        let mut table = (root - LOAD) as usize;
        for step in 1.. {
            let place = table + (address >> (12 + 9 * (3 - step)) & 511) as usize * 8;
            if step == level {
                return place;
            }
            table = (self.word(place) & 0x0000_ffff_ffff_f000) as usize - LOAD as usize;
        }
        unreachable!("a level is found")
    }

    pub(crate) fn word(&self, place: usize) -> u64 {
        u64::from_le_bytes(*self.0[place..].first_chunk().expect("eight bytes"))
    }

    pub(crate) fn set(&mut self, place: usize, word: u64) {
        self.0[place..place + 8].copy_from_slice(&word.to_le_bytes());
    }

    pub(crate) fn flip(&mut self, place: usize, bits: u64) {
        self.set(place, self.word(place) ^ bits);
    }

    /// Appends a page, and returns its address.
    pub(crate) fn grow(&mut self) -> u64 {
        let address = LOAD + self.0.len() as u64;
        self.0.resize(self.0.len() + PAGE, 0);
        let bytes = self.0.len() as u64;
        self.set(16, bytes);
        self.set(HEAD + offset_of!(Head, image_bytes), bytes);
        address
    }

    /// Writes the checksums that such bytes have: a mistake of the writer, and not of who carried them.
    pub(crate) fn sealed(mut self) -> Self {
        let bytes = self.tables().bytes as usize;
        let crc = crc32c::crc32c(&self.0[TABLES + CHECKSUM_FROM..TABLES + bytes]);
        self.put(TABLES + offset_of!(BootHeader, crc), &crc);
        let place = HEAD + offset_of!(Head, checksum);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&self.0[..place]), &self.0[place + 8..]);
        self.set(place, crc.into());
        self
    }
}
