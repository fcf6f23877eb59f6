//! Components: an address space, a table, stacks for callers (`kernel.md` 1).

use crate::{Counters, WORN};
use bulkhead_kernel_abi::accounts::FaultRecord;
use bulkhead_kernel_abi::boot::ComponentRow;
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::{Kind, MAX_COMPONENTS, MAX_STACKS, NONE};

/// Whether a component can be entered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ComponentState {
    /// There is none.
    #[default]
    Free,
    /// It can.
    Living,
    /// Threads are brought out of it; then it is what [`Component::then`] says.
    Unwinding,
    /// It ended and stays so until it is reset.
    Stopped,
    /// It is being made.
    Building,
}

/// What a fault of a thread inside comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum OnFault {
    /// The thread leaves; its caller gets `Faulted`.
    #[default]
    Return,
    /// All leave, and the component begins again.
    Reset,
    /// All leave, and the component stops.
    Stop,
}

/// A component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(128))]
pub struct Component {
    /// Stacks that no caller has, a bit each. In the first word that a fast path loads.
    pub free_stacks: u64,
    /// What TTBR0_EL1 is while a thread is inside: the root of its translation table, and above it its ASID.
    pub space: u64,
    /// Ticks that a caller must have in hand; 0 for none.
    pub needs_ticks: u64,
    /// See [`Component::gate`]; who changes state, grant or needs calls [`Component::refresh`].
    pub(crate) gate: u64,
    /// Life and grant.
    pub counters: Counters,
    /// First of its slots among all.
    pub first_slot: u32,
    /// Its slots.
    pub slots: u32,
    /// First of its entries among all.
    pub first_entry: u32,
    /// First of its stacks among all.
    pub first_stack: u32,
    /// Its entries.
    pub entries: u16,
    /// Its stacks.
    pub stacks: u16,
    /// Whether it can be entered.
    pub state: ComponentState,
    /// What follows its unwinding.
    pub then: ComponentState,
    /// What a fault comes to.
    pub on_fault: OnFault,
    /// Calls out of it can be aborted.
    pub is_abortable: bool,
    /// End point of its supervisor, or [`NONE`].
    pub supervisor: u16,
    /// First of its threads, which a reset starts.
    pub first_thread: u16,
    /// How far its unwinding and restoring is.
    pub progress: u32,
    /// What the supervisor is sent.
    pub supervisor_bits: u64,
    /// Its latest fault.
    pub fault: FaultRecord,
}

const _: () = assert!(size_of::<Component>() == 128);

/// Bits of a capability's first word that the gate decides: kind and the right to use it, the upper bits of the object's number, which are zero for the
/// 64 components that there can be, and the grant.
pub const GATE_MASK: u64 = 0xffff_ffff_ffc0_01ff;
/// A call that may be used.
const GATE_OPEN: u64 = Kind::Call as u64 | (right::USE as u64) << 8;
/// A bit of the object's number that no component has: it never matches, and the fast path looks for this one alone.
pub const GATE_NEEDS: u64 = 1 << 22;
/// An empty slot that may be used: there is none.
pub const GATE_CLOSED: u64 = (right::USE as u64) << 8;

const _: () = assert!(MAX_COMPONENTS == 64, "the mask has no bits for more");

/// Where the gate is, for the fast path.
pub const GATE_OFFSET: usize = core::mem::offset_of!(Component, gate);

impl Component {
    /// A component as the host described it. Its life begins at 1, so that no frame of zeros is one of it.
    #[must_use]
    pub fn new(row: &ComponentRow) -> Self {
        let mut this = Self {
            space: row.root,
            needs_ticks: row.needs_ticks,
            counters: Counters { life: 1, grant: 1 },
            first_slot: row.first_slot,
            slots: row.slots,
            first_entry: row.first_entry,
            first_stack: row.first_stack,
            entries: row.entries.min(u32::from(u16::MAX)) as u16,
            stacks: row.stacks.min(MAX_STACKS as u32) as u16,
            state: ComponentState::Living,
            then: ComponentState::Living,
            on_fault: match row.on_fault {
                0 => OnFault::Return,
                1 => OnFault::Reset,
                _ => OnFault::Stop,
            },
            is_abortable: row.abortable != 0,
            supervisor: row.supervisor,
            first_thread: NONE,
            supervisor_bits: row.supervisor_bits,
            ..Self::default()
        };
        this.free_all_stacks();
        this.refresh();
        this
    }

    /// What the first word of a capability must be, in the bits of [`GATE_MASK`], for a call to come in by the fast path. So three words are compared
    /// at once there: kind and right, the grant, and that the component lives. With [`GATE_NEEDS`] the caller's time is looked at as well; nothing
    /// matches [`GATE_CLOSED`], and the slow path says why.
    #[must_use]
    pub fn gate(&self) -> u64 {
        self.gate
    }

    /// Makes the gate what state, grant and needs say.
    pub(crate) fn refresh(&mut self) {
        let is_open = self.state == ComponentState::Living && self.counters.grant != WORN;
        let needs = if self.needs_ticks == 0 { 0 } else { GATE_NEEDS };
        self.gate = if is_open { u64::from(self.counters.grant) << 32 | GATE_OPEN | needs } else { GATE_CLOSED };
    }

    /// No caller is inside any more.
    pub(crate) fn free_all_stacks(&mut self) {
        self.free_stacks = match self.stacks {
            0 => 0,
            count => u64::MAX.wrapping_shr(64u32.wrapping_sub(u32::from(count))),
        };
    }

    /// Takes a stack for a caller.
    pub(crate) fn take_stack(&mut self) -> Option<u16> {
        let stack = self.free_stacks.trailing_zeros();
        self.free_stacks &= self.free_stacks.wrapping_sub(1);
        (stack < 64).then_some(stack as u16)
    }

    /// Gives it back.
    pub(crate) fn give_stack(&mut self, stack: u16) {
        self.free_stacks |= 1u64.wrapping_shl(u32::from(stack));
    }
}
