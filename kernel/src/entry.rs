//! Boot, the vectors' Rust ends, and the end.

use bulkhead_arch::el1::kernel::floating_point;
use bulkhead_arch::el1::kernel::pool::Pool;
use bulkhead_arch::el1::{call, cpu, kernel as machine};
use bulkhead_arch::kernel::{Entry, Fast};
use bulkhead_arm::psci::Function;
use bulkhead_kernel::claims::{ShareRoom, Shares};
use bulkhead_kernel::servers::TimeRoom;
use bulkhead_kernel::{Kernel, Next};
use bulkhead_kernel_abi::accounts::{ACCOUNTS_BYTES, Accounts};
use bulkhead_kernel_abi::boot::Tables;
use bulkhead_kernel_abi::image::{ACCOUNTS_BYTES_BEFORE_HEAD, EPITAPH_MAGIC, Epitaph, REFUSED_TABLES, SLOTS};
use bulkhead_kernel_abi::{
    Capability, MAX_BANDS, MAX_BINDINGS, MAX_COMPONENTS, MAX_END_POINTS, MAX_POOL_PAGES, MAX_QUOTAS, MAX_REGIONS,
    MAX_SCHEDULERS, MAX_SERVERS, MAX_TCAPS, MAX_THREADS, MAX_WIRES,
};
use bulkhead_objects::{
    Binding, Component, Counters, EndPoint, Page, Position, Process, Quota, Region, Registers, Room, Scheduler, Thread,
};

use bulkhead_sched::band::Bands;
use bulkhead_sched::kernel::{KernelCore, Sleepers};
use bulkhead_sched::tcap::Claims;
use core::cell::UnsafeCell;
use core::mem::{MaybeUninit, offset_of};
use core::panic::PanicInfo;

/// What one core alone uses.
struct Cell<T>(UnsafeCell<T>);

// SAFETY: one core, and the kernel runs with interrupts masked from an entry to its return: what runs here is alone.
unsafe impl<T> Sync for Cell<T> {}

/// What those see that watch, and what the fast path works on, in its order: its first words are counts of calls, which end the pages of the accounts.
#[repr(C, align(4096))]
struct Area {
    accounts: MaybeUninit<Accounts>,
    fast: Fast,
    components: [MaybeUninit<Component>; MAX_COMPONENTS],
    slots: [MaybeUninit<Capability>; SLOTS],
}

// `machine::set_fast` says so, and who watches.
const _: () = assert!(offset_of!(Area, components) == offset_of!(Area, fast).wrapping_add(size_of::<Fast>()));
const _: () = assert!(offset_of!(Area, components) == ACCOUNTS_BYTES);
const _: () = assert!(size_of::<Area>() as u64 == ACCOUNTS_BYTES_BEFORE_HEAD);
const _: () = assert!(
    offset_of!(Area, slots) == offset_of!(Area, components).wrapping_add(size_of::<[Component; MAX_COMPONENTS]>())
);

/// The last memory of the kernel (`kernel.ld`), so that its accounts are found from the head.
#[unsafe(export_name = "bulkhead_kernel_area")]
#[unsafe(link_section = ".area")]
static AREA: Cell<Area> = Cell(UnsafeCell::new(Area {
    accounts: MaybeUninit::zeroed(),
    fast: Fast::NOTHING,
    components: [const { MaybeUninit::uninit() }; MAX_COMPONENTS],
    slots: [const { MaybeUninit::uninit() }; SLOTS],
}));

/// Memory of the other objects, without values: the image has no bytes for it.
#[repr(C)]
struct Storage {
    threads: [MaybeUninit<Thread>; MAX_THREADS],
    end_points: [MaybeUninit<EndPoint>; MAX_END_POINTS],
    bindings: [MaybeUninit<Binding>; MAX_BINDINGS],
    servers: [MaybeUninit<Position>; MAX_SERVERS],
    schedulers: [MaybeUninit<Scheduler>; MAX_SCHEDULERS],
    tcaps: [MaybeUninit<Counters>; MAX_TCAPS],
    bands: [MaybeUninit<Counters>; MAX_BANDS],
    wires: [MaybeUninit<Counters>; MAX_WIRES],
    regions: [MaybeUninit<Region>; MAX_REGIONS],
    quotas: [MaybeUninit<Quota>; MAX_QUOTAS],
    processes: [MaybeUninit<Process>; MAX_COMPONENTS],
    pages: [MaybeUninit<Page>; MAX_POOL_PAGES],
}

/// Found by its symbol: threads are first.
#[unsafe(export_name = "bulkhead_kernel_objects")]
static STORAGE: Cell<Storage> = Cell(UnsafeCell::new(Storage {
    threads: [const { MaybeUninit::uninit() }; MAX_THREADS],
    end_points: [const { MaybeUninit::uninit() }; MAX_END_POINTS],
    bindings: [const { MaybeUninit::uninit() }; MAX_BINDINGS],
    servers: [const { MaybeUninit::uninit() }; MAX_SERVERS],
    schedulers: [const { MaybeUninit::uninit() }; MAX_SCHEDULERS],
    tcaps: [const { MaybeUninit::uninit() }; MAX_TCAPS],
    bands: [const { MaybeUninit::uninit() }; MAX_BANDS],
    wires: [const { MaybeUninit::uninit() }; MAX_WIRES],
    regions: [const { MaybeUninit::uninit() }; MAX_REGIONS],
    quotas: [const { MaybeUninit::uninit() }; MAX_QUOTAS],
    processes: [const { MaybeUninit::uninit() }; MAX_COMPONENTS],
    pages: [const { MaybeUninit::uninit() }; MAX_POOL_PAGES],
}));

/// Memory of time: zeros, as all that the kernel writes.
static CORE: Cell<MaybeUninit<KernelCore<MAX_SERVERS>>> = Cell(UnsafeCell::new(MaybeUninit::zeroed()));
static CLAIMS: Cell<MaybeUninit<Claims<MAX_TCAPS, MAX_SERVERS>>> = Cell(UnsafeCell::new(MaybeUninit::zeroed()));
static SHARES: Cell<MaybeUninit<Shares>> = Cell(UnsafeCell::new(MaybeUninit::uninit()));
static BANDS: Cell<MaybeUninit<Bands<MAX_SERVERS>>> = Cell(UnsafeCell::new(MaybeUninit::uninit()));
static SLEEPERS: Cell<MaybeUninit<Sleepers<MAX_SERVERS>>> = Cell(UnsafeCell::new(MaybeUninit::uninit()));

/// The one kernel of this core.
static KERNEL: Cell<MaybeUninit<Kernel<'static, machine::Core>>> = Cell(UnsafeCell::new(MaybeUninit::uninit()));

/// `Kind` of an entry, as `vectors.s` numbers them.
const INTERRUPT: u64 = 1;
/// What an epitaph adds to the number of a vector.
const VECTOR: u64 = 256;

/// Gives each object of an array its first value.
fn made<T>(room: &'static mut [MaybeUninit<T>], make: impl Fn() -> T) -> &'static mut [T] {
    for one in room.iter_mut() {
        one.write(make());
    }
    // SAFETY: each has a value now.
    unsafe { room.assume_init_mut() }
}

#[inline(never)] // What it makes on its way is off the stack before the kernel itself is made.
fn room() -> Room<'static> {
    // SAFETY: see `Cell`; called once, at boot.
    let storage = unsafe { &mut *STORAGE.0.get() };
    let area = AREA.0.get();
    // SAFETY: the same; each of the two is a field of its own, and who has others of the area has no reference to all of it.
    let (components, slots) = unsafe { (&mut (*area).components, &mut (*area).slots) };
    Room {
        components: made(components, Component::default),
        slots: made(slots, || Capability::NULL),
        threads: made(&mut storage.threads, Thread::default),
        end_points: made(&mut storage.end_points, || EndPoint::EMPTY),
        bindings: made(&mut storage.bindings, Binding::default),
        servers: made(&mut storage.servers, || Position::EMPTY),
        schedulers: made(&mut storage.schedulers, || Scheduler::EMPTY),
        tcaps: made(&mut storage.tcaps, Counters::default),
        wires: made(&mut storage.wires, Counters::default),
        bands: made(&mut storage.bands, Counters::default),
        regions: made(&mut storage.regions, || Region::EMPTY),
        quotas: made(&mut storage.quotas, Quota::default),
        processes: made(&mut storage.processes, || Process::EMPTY),
        pages: made(&mut storage.pages, || Page::EMPTY),
        entries: &[],
        stacks: &[],
        programs: &[],
        segments: &[],
    }
}

#[inline(never)] // The same: the largest object of all.
fn time_room() -> TimeRoom<'static> {
    // SAFETY: (1) see `Cell`; called once, at boot. (2) The core is zero, and zeros are a core: it has integers, flags, and enumerations with a tag of their
    // own whose first variant has no fields.
    let (core, sleepers) = unsafe { ((*CORE.0.get()).assume_init_mut(), &mut *SLEEPERS.0.get()) };
    core.clear();
    // SAFETY: see `Cell`; called once, and the field is nobody else's. It is zero, and zeros are accounts, as all other bytes are (`FromBytes`).
    let accounts = unsafe { (*AREA.0.get()).accounts.assume_init_mut() };
    // SAFETY: see `Cell`; called once. The claims are zero, and zeros are claims: integers and flags.
    let (claims, bands) = unsafe { ((*CLAIMS.0.get()).assume_init_mut(), &mut *BANDS.0.get()) };
    // SAFETY: see `Cell`; called once.
    let state = unsafe { &mut *SHARES.0.get() }.write(Shares::NONE);
    let shares = ShareRoom { claims, bands: bands.write(Bands::new()), state };
    TimeRoom { core, sleepers: sleepers.write(Sleepers::new()), accounts, shares }
}

/// The boot tables are not taken.
fn refuse() -> ! {
    machine::bury(Epitaph { magic: EPITAPH_MAGIC, reason: REFUSED_TABLES, ..Epitaph::default() });
    power_off()
}

/// Rust end of `boot.s`: both halves of translation are on, and what the kernel writes is zero. Returns the first thread's registers.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_kernel_start(_device_tree: u64) -> *mut Registers {
    let Ok(tables) = Tables::read(machine::tables(), machine::crc32c) else { refuse() };
    // SAFETY: see `Cell`; no thread has run yet.
    let kernel = unsafe { &mut *KERNEL.0.get() };
    // SAFETY: the writer of the instance maps the pool of its boot tables writable, and what programs have to be copied read-only; it gives neither to
    // anybody else, and the checksum says that these are its tables.
    let pool = unsafe { Pool::new(tables.header.pool_address, tables.header.pool_pages, machine::image_range()) };
    let header = tables.header;
    // SAFETY: the same of the places of floating-point registers.
    unsafe { floating_point::set_places(header.floating_point_address, header.floating_point_threads as u16) };
    let Some(made) = Kernel::new(machine::Core::start(pool), room(), time_room(), &tables, cpu::frequency_hz()) else {
        refuse()
    };
    let kernel = kernel.write(made);
    start_fast_path(&tables);
    let next = kernel.choose();
    registers(kernel, next)
}

/// Says where the fast path finds what it needs.
fn start_fast_path(tables: &Tables<'static>) {
    let area = AREA.0.get();
    let fast = Fast {
        entries: tables.entries.as_ptr().expose_provenance() as u64,
        stacks: tables.stacks.as_ptr().expose_provenance() as u64,
        version: [tables.header.kernel_build, cpu::frequency_hz()],
        ..Fast::NOTHING
    };
    // SAFETY: see `Cell`; no thread has run yet, and nobody has a reference to these words.
    unsafe { (&raw mut (*area).fast).write(fast) };
    // SAFETY: the address of a static, of the components between `Fast` and slots (asserted above), whose numbers `Objects::new` has bounded by the
    // lengths of the arrays; `KERNEL` has them to itself from an entry to its return, and the fast path otherwise.
    unsafe { machine::set_fast((&raw mut (*area).components).expose_provenance() as u64) };
}

/// Rust end of the vectors from EL0: returns the registers of the thread that runs next.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_kernel_enter(kind: u64, syndrome: u64, address: u64) -> *mut Registers {
    // SAFETY: see `Cell`; a thread has run, so the kernel was written. The vectors have stored its registers and do not until it runs again.
    let kernel = unsafe { (*cpu::opaque(KERNEL.0.get())).assume_init_mut() };
    let entry = if kind == INTERRUPT { Entry::Interrupt } else { Entry::Synchronous { syndrome, address } };
    let next = kernel.enter(entry);
    registers(kernel, next)
}

/// Rust end of the vectors for the use of closed floating-point registers: 1 if the thread has its own now, 0 if it is a fault.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_kernel_floating_point() -> u64 {
    // SAFETY: as for `bulkhead_kernel_enter`.
    let kernel = unsafe { (*cpu::opaque(KERNEL.0.get())).assume_init_mut() };
    kernel.gives_floating_point().into()
}

/// Rust end of the fast path of a Send: the words of its capability. Returns the number of [`Signal`].
#[unsafe(no_mangle)]
extern "C" fn bulkhead_kernel_signal(capability: u64, word: u64) -> u64 {
    // SAFETY: as for `bulkhead_kernel_enter`; of the thread that runs it reads and writes nothing that the vectors have in registers.
    let kernel = unsafe { (*cpu::opaque(KERNEL.0.get())).assume_init_mut() };
    kernel.signal((capability >> 16) as u16, (capability >> 32) as u32, word) as u64
}

/// The same of a RemoteSend.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_kernel_remote_signal(capability: u64, word: u64) -> u64 {
    // SAFETY: as for `bulkhead_kernel_signal`.
    let kernel = unsafe { (*cpu::opaque(KERNEL.0.get())).assume_init_mut() };
    let capability =
        Capability { object: (capability >> 16) as u16, grant: (capability >> 32) as u32, word, ..Capability::NULL };
    kernel.remote_signal(&capability) as u64
}

/// Rust end of the vectors for a `switch`: the registers of the thread that runs next; null, with nothing done, if that is not the usual case.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_kernel_exchange() -> *mut Registers {
    // SAFETY: as for `bulkhead_kernel_enter`.
    let kernel = unsafe { (*cpu::opaque(KERNEL.0.get())).assume_init_mut() };
    let next = kernel.exchange();
    next.map_or(core::ptr::null_mut(), |next| registers(kernel, next))
}

/// The thread that sent is stored: returns the registers of the one that runs next.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_kernel_switch() -> *mut Registers {
    // SAFETY: as for `bulkhead_kernel_enter`.
    let kernel = unsafe { (*cpu::opaque(KERNEL.0.get())).assume_init_mut() };
    let next = kernel.switch();
    registers(kernel, next)
}

fn registers(kernel: &mut Kernel<'static, machine::Core>, next: Next) -> *mut Registers {
    let until_ticks = kernel.until_ticks();
    // SAFETY: see `Cell`; a word of which nobody has a reference.
    unsafe { (&raw mut (*AREA.0.get()).fast.until_ticks).write(until_ticks) };
    match (next, kernel.registers()) {
        (Next::Thread(_), Some(registers)) => core::ptr::from_mut(registers),
        _ => power_off(),
    }
}

/// Rust end of the vectors that a working kernel never takes. The partition's health policy acts upon the reset; the board starts again.
#[unsafe(no_mangle)]
extern "C" fn bulkhead_kernel_fatal(
    vector: u64,
    syndrome: u64,
    address: u64,
    program_counter: u64,
    stack_pointer: u64,
) -> ! {
    let reason = VECTOR.wrapping_add(vector);
    machine::bury(Epitaph { magic: EPITAPH_MAGIC, reason, syndrome, address, program_counter, stack_pointer });
    end(Function::SystemReset)
}

/// Nothing can happen here any more: no thread is left.
fn power_off() -> ! {
    end(Function::SystemOff)
}

fn end(function: Function) -> ! {
    call::call(function.id(), [0; 3]);
    // The level below has refused: nothing is left to do.
    loop {
        cpu::wait_for_interrupt();
    }
}

/// The language asks for one; no path leads here, which `tests/system` shows by the symbols.
#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    end(Function::SystemReset)
}
