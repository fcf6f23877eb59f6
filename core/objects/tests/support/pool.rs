//! An instance with a pool: programs, a quota, a region of the host; and what must always be true of pages.

use super::*;
use bulkhead_kernel_abi::boot::{ProgramRow, QuotaRow, RegionRow, SegmentRow};
use bulkhead_kernel_abi::call::ComponentOperation;
use bulkhead_kernel_abi::capability::memory_word;
use bulkhead_kernel_abi::image::COMPONENT_STACKS;
use bulkhead_objects::{ComponentState, NO_PAGE, Pages, ThreadState};

/// Components, threads, regions and quotas that are free at boot.
pub(crate) const PROCESSES: usize = 4;
pub(crate) const POOL: u64 = 0x5000_0000;
pub(crate) const POOL_PAGES: u32 = 64;
/// Slots of the application in such an instance.
pub(crate) const QUOTA: u64 = 27;
/// Three pages of the host, readable and writable.
pub(crate) const MEMORY: u64 = INTERRUPT;
/// Its own table.
pub(crate) const TABLE_APP: u64 = CALL_NOWHERE;
pub(crate) const HOST_REGION: u64 = 0x4900_0000;
/// Where text, constants, data and stack of program 0 are; program 1 has a page of each but constants.
pub(crate) const TEXT: u64 = 0x40_0000;
pub(crate) const CONSTANTS: u64 = 0x40_1000;
pub(crate) const DATA: u64 = 0x40_2000;
pub(crate) const STACK: u64 = COMPONENT_STACKS - 0x2000;
pub(crate) const IMAGE: u64 = 0x4800_0000;
/// Pages of the pool of a process of program 0: 2 of data, 2 of stack, 4 tables.
pub(crate) const NEEDED: u64 = 8;
pub(crate) const R: u64 = 16;
pub(crate) const W: u64 = 2;
pub(crate) const X: u64 = 4;

/// What matters of what was done with pages, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// An entry that was valid is invalid.
    Broken,
    /// The core forgot it.
    Forgotten(u16, u64),
    /// And all of a component.
    ForgottenAll(u16),
    /// A page was filled for who has it now.
    Filled(u32),
}

impl Pages for Fake {
    fn word(&self, page: u32, index: u16) -> u64 {
        self.pool[page as usize][usize::from(index)]
    }
    fn set_word(&mut self, page: u32, index: u16, word: u64) {
        let place = &mut Rc::make_mut(&mut self.pool[page as usize])[usize::from(index)];
        assert!(
            *place & 1 == 0 || word & 1 == 0 || *place == word || word < 1 << 20,
            "break before make: {place:#x} {word:#x}"
        );
        if *place & 1 == 1 && word == 0 {
            self.log.push(Log::Broken);
        }
        *place = word;
        self.changes += 1;
    }
    fn clear(&mut self, page: u32) {
        self.pool[page as usize] = Rc::new(vec![0; 512]);
        self.log.push(Log::Filled(page));
    }
    fn copy(&mut self, to: u32, from: u32) {
        self.pool[to as usize] = self.pool[from as usize].clone();
        self.log.push(Log::Filled(to));
    }
    fn copy_image(&mut self, to: u32, physical: u64) {
        self.pool[to as usize] = Rc::new(vec![physical; 512]);
        self.log.push(Log::Filled(to));
    }
    fn forget(&mut self, component: u16, address: u64) {
        self.log.push(Log::Forgotten(component, address));
    }
    fn forget_all(&mut self, component: u16) {
        self.log.push(Log::ForgottenAll(component));
    }
}

/// What a component sees at an address: physical address and rights.
pub(crate) fn mapped(b: &Bench<'_>, component: u16, address: u64) -> Option<(u64, u64)> {
    let mut table = b.component(component).space & 0xffff_ffff_f000;
    for shift in [30, 21, 12] {
        let word = b.world.pool[((table - POOL) >> 12) as usize][(address >> shift & 511) as usize];
        if word & 1 == 0 {
            return None;
        }
        table = word;
        if shift > 12 {
            table &= 0xffff_ffff_f000;
        }
    }
    assert_eq!((table >> 53 & 1, table >> 11 & 1, table >> 6 & 1), (1, 1, 1), "not for EL1, not global, for EL0");
    let write = if table >> 7 & 1 == 0 { W } else { 0 };
    let execute = if table >> 54 & 1 == 0 { X } else { 0 };
    Some((table & 0xffff_ffff_f000, R | write | execute))
}

/// The first word that a component reads at an address.
pub(crate) fn seen(b: &Bench<'_>, component: u16, address: u64) -> Option<u64> {
    let (physical, _) = mapped(b, component, address)?;
    let page = physical.checked_sub(POOL).map(|offset| (offset >> 12) as usize);
    Some(page.filter(|page| *page < b.world.pool.len()).map_or(physical, |page| b.world.pool[page][0]))
}

/// A component stores a word.
pub(crate) fn store(b: &mut Bench<'_>, component: u16, address: u64, word: u64) {
    let (physical, rights) = mapped(b, component, address).expect("mapped");
    assert_eq!(rights & W, W, "writable");
    Rc::make_mut(&mut b.world.pool[((physical - POOL) >> 12) as usize])[0] = word;
}

impl Rows {
    /// The usual instance, and a pool.
    pub(crate) fn with_pool() -> Self {
        let mut rows = Self::new();
        (rows.header.pool_address, rows.header.pool_pages) = (POOL, POOL_PAGES);
        rows.threads[0].end_point = 0;
        rows.quotas = vec![QuotaRow {
            pages: POOL_PAGES,
            components: 4,
            threads: 4,
            regions: 4,
            component: APP,
            programs: 0b11,
            ..Default::default()
        }];
        rows.components[usize::from(APP)].quota = NONE;
        rows.regions = vec![RegionRow { physical: HOST_REGION, pages: 4, reserved: 0 }];
        let mut physical = IMAGE;
        let mut segment = |address: u64, pages: u32, rights: u64| {
            physical += 0x1_0000;
            SegmentRow { address, physical: physical - 0x1_0000, pages, rights: rights as u32 }
        };
        rows.segments = vec![
            segment(TEXT, 1, R | X),
            segment(CONSTANTS, 1, R),
            segment(DATA, 2, R | W),
            segment(TEXT, 1, R | X),
            segment(0x40_4000, 1, R | W),
        ];
        let program = |entry: u64, first_segment: u32, segments: u32, stack_pages: u32, pages: u32| ProgramRow {
            entry,
            first_segment,
            segments,
            stack_pages,
            pages,
            ..Default::default()
        };
        rows.programs = vec![program(TEXT + 0x10, 0, 3, 2, 8), program(TEXT + 0x20, 3, 2, 1, 6)];
        let table = &mut rows.capabilities[..SLOTS as usize];
        table[QUOTA as usize] = capability(Kind::Quota, 0, 0);
        table[TABLE_APP as usize] = capability(Kind::Table, APP, 0);
        table[MEMORY as usize] = capability(Kind::Memory, 0, memory_word(1, 3));
        rows
    }
}

impl Rows {
    /// Lets processes of these programs be made from the quota.
    pub(crate) fn set_programs(&mut self, programs: u32) {
        self.quotas[0].programs = programs;
    }

    /// Gives the quota to another component.
    pub(crate) fn set_quota_of(&mut self, component: u16) {
        self.quotas[0].component = component;
    }
}

/// Thread 0 starts and makes a process; returns its number.
pub(crate) fn process(b: &mut Bench<'_>, x: &[u64; 7]) -> u16 {
    b.start(&[0]);
    assert_eq!(b.pick(0), Some(0));
    spawn(b, x)
}

/// The thread that runs makes a process: program, quota, payer, first slot, count, slot that gets it, share.
pub(crate) fn spawn(b: &mut Bench<'_>, x: &[u64; 7]) -> u16 {
    let me = b.objects.running().expect("runs");
    let [program, quota, payer, first, count, to, share] = *x;
    assert_eq!(b.call(Call::Component, &[0, program, quota, payer, first, count, to, share]), Code::Ok);
    let [bits] = b.answers(me);
    assert_eq!(bits.count_ones(), 1);
    bits.trailing_zeros() as u16
}

/// Pages, components, threads and regions of a share.
pub(crate) const fn share(pages: u64, components: u64, threads: u64, regions: u64) -> u64 {
    pages | components << 32 | threads << 40 | regions << 48
}

/// QV-E6, CH-62: no page that nobody has is mapped anywhere, each that somebody has is used as often as its record says, quotas add up, and
/// W^X holds.
pub(crate) fn check_pool(b: &Bench<'_>) {
    let room = b.objects.room();
    let pool = room.pages.len();
    let page_of = |word: u64| {
        let physical = word & 0xffff_ffff_f000;
        physical.checked_sub(POOL).map(|offset| (offset >> 12) as usize).filter(|page| *page < pool)
    };
    let mut uses = vec![0u16; pool];
    for (number, process) in room.processes.iter().enumerate().filter(|(_, process)| process.is_made) {
        let component = &room.components[number];
        assert_ne!(component.state, ComponentState::Free, "process {number}");
        let root = page_of(component.space).expect("a root is the pool's");
        uses[root] += 1;
        let (mut tables, mut own, mut private) = (1, 0, 0);
        let words = |page: usize| b.world.pool[page].iter().filter(|word| **word & 1 == 1);
        for second in words(root) {
            let second = page_of(*second).expect("a table is the pool's");
            (uses[second], tables) = (uses[second] + 1, tables + 1);
            for third in words(second) {
                let third = page_of(*third).expect("a table is the pool's");
                (uses[third], tables) = (uses[third] + 1, tables + 1);
                for word in words(third) {
                    let is_writable = word >> 7 & 1 == 0;
                    assert!(!is_writable || word >> 54 & 1 == 1, "W and X: {word:#x}");
                    let Some(page) = page_of(*word) else { continue };
                    uses[page] += 1;
                    let is_own = room.pages[page].owner == process.quota;
                    own += u32::from(is_own);
                    private += u32::from(is_own && room.pages[page].link == NO_PAGE);
                }
            }
        }
        assert_eq!((u32::from(process.tables), process.private_pages), (tables, private), "process {number}");
        let is_its = |one: &&Thread| usize::from(one.home) == number && one.state != ThreadState::Free;
        assert_eq!(usize::from(process.threads), room.threads.iter().filter(is_its).count(), "process {number}");
        assert!(process.own_pages <= own, "process {number} has {own} own pages, and knows {}", process.own_pages);
        let quota = &room.quotas[usize::from(process.quota)];
        assert!(quota.is_used && usize::from(quota.component) == number);
        let parent = &room.processes[usize::from(process.parent)];
        assert_eq!(parent.children >> number & 1, 1, "a parent knows {number}");
    }
    for region in room.regions.iter().filter(|region| region.is_used && region.list != NO_PAGE) {
        uses[region.list as usize] += 1;
        for word in b.world.pool[region.list as usize].iter().filter(|word| **word != 0) {
            uses[(*word - 1) as usize] += 1;
        }
    }
    for (number, page) in room.pages.iter().enumerate() {
        assert_eq!(page.uses, uses[number], "page {number}: {page:?}");
        assert_eq!(page.owner == NONE, page.uses == 0, "page {number}: {page:?}");
    }
    let mut free = 0;
    let (mut threads, mut components, mut regions) = (0, 0, 0);
    for (number, quota) in (0..NONE).zip(room.quotas.iter()).filter(|(_, quota)| quota.is_used) {
        let taken = room.pages.iter().filter(|page| page.owner == number).count();
        assert_eq!(quota.taken as usize, taken, "quota {number}");
        free += quota.pages;
        (threads, components, regions) =
            (threads + quota.threads, components + quota.components, regions + quota.regions);
    }
    // Quotas never grow: what can be taken and what was taken are what the host granted.
    assert_eq!(free as usize, room.pages.iter().filter(|page| page.owner == NONE).count(), "quotas add up");
    let made = room.processes.iter().filter(|process| process.is_made).count() as u16;
    let extra = room.threads.iter().filter(|thread| thread.quota != NONE).count() as u16;
    let used = room.regions.iter().filter(|region| region.is_used && region.quota != NONE).count() as u16;
    assert_eq!((components + made, threads + extra + made, regions + used), (4, 4, 4));
}

/// Slots of a process that was given those from `SERVER` on: its own quota, the server, a TCap, a RemoteSend and a Send.
pub(crate) const OWN_QUOTA: u64 = 1;
pub(crate) const OWN_SERVER: u64 = 2;
pub(crate) const OWN_TCAP: u64 = 3;
pub(crate) const OWN_REMOTE: u64 = 4;
pub(crate) const OWN_SEND: u64 = 5;
/// A spawn of program 0 with those, and a quota for forks.
pub(crate) const USUAL: [u64; 8] =
    [ComponentOperation::Spawn.number(), 0, QUOTA, SERVER, SERVER, 4, EMPTY, share(40, 2, 2, 1)];

/// Threads yield until this one runs.
pub(crate) fn until(b: &mut Bench<'_>, wanted: u16) {
    for _ in 0..9 {
        b.world.now += SOON;
        b.objects.pass_date(&mut b.world);
        if b.pick(0) == Some(wanted) {
            return;
        }
        assert_eq!(b.call(Call::Yield, &[]), Code::Ok);
    }
    panic!("thread {wanted} never runs");
}

/// The application runs, and has made the usual process.
pub(crate) fn with_child(test: impl FnOnce(&mut Bench<'_>, u16)) {
    bench_of(&Rows::with_pool(), |b| {
        let [_, rest @ ..] = USUAL;
        let child = process(b, &rest);
        test(b, child);
        check_pool(b);
    });
}

pub(crate) fn first_of(b: &Bench<'_>, component: u16) -> u16 {
    b.component(component).first_thread
}

/// Nothing of a process is left.
pub(crate) fn all_is_back(b: &Bench<'_>) {
    let room = b.objects.room();
    let quota = room.quotas[0];
    assert_eq!((quota.pages, quota.taken), (POOL_PAGES, 0));
    assert_eq!((quota.components, quota.threads, quota.regions), (4, 4, 4));
    assert!(room.quotas[1..].iter().all(|quota| !quota.is_used));
    assert!(room.pages.iter().all(|page| page.owner == NONE));
    assert!(room.processes.iter().all(|process| !process.is_made && process.children == 0));
    assert!(room.components[5..].iter().all(|component| component.state == ComponentState::Free));
    assert!(room.threads[8..].iter().all(|thread| thread.state == ThreadState::Free));
    assert!(room.regions.iter().all(|region| region.list == NO_PAGE));
    let first = room.components[5].first_slot as usize;
    assert!(room.slots[first..].iter().all(|slot| *slot == Capability::NULL));
    check_pool(b);
}
