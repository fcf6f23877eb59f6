//! Floating point on declaration (`kernel.md` 1 and 5; `docs/design-records/0069-floating-point-on-declaration.md`).
//!
//! A component that declares it may use the registers; elsewhere their use is a fault. They are loaded at the first use, by the exception that it is, and closed by the
//! vectors at every entry into the kernel. So neither a thread that does not compute with them nor a kernel in which nobody declares them executes one instruction for it.
//!
//! What is in them belongs to one *stay* of one thread in one component. Who comes into another component, or into another life of one, finds zeros: nobody sees what
//! another one left. They do not pass through `invoke`, and a caller keeps what it needs, as it does with x0 to x18.
//!
//! Rejected: a look at the callee in the fast path of `invoke` and `return`, which saves and clears for one that declares them. Every call would pay for the look, and a thread
//! would need a place for the registers of each of its eight levels.

use crate::outside::Outside;
use bulkhead_arch::kernel::KernelMachine;
use bulkhead_kernel_abi::MAX_THREADS;
use bulkhead_objects::Objects;

/// Where the component is in the word of a stay; its life is below, and the calls around it are above.
const COMPONENT_SHIFT: u32 = 32;
const DEPTH_SHIFT: u32 = 48;
/// A stay is never 0.
const IS_STAY: u64 = 1 << 63;

impl<M: KernelMachine> Outside<'_, M> {
    /// The thread that runs and its stay, if its component declares floating point.
    fn stay(&self, objects: &Objects<'_>) -> Option<(u16, u64)> {
        let (thread, room) = (objects.running()?, objects.room());
        let one = room.threads.get(usize::from(thread))?;
        let process = room.processes.get(usize::from(one.component))?;
        let declares = match process.is_made {
            true => room.programs.get(usize::from(process.program))?.floating_point != 0,
            false => self.text.components().get(usize::from(one.component))?.floating_point != 0,
        };
        let place =
            u64::from(one.depth).wrapping_shl(DEPTH_SHIFT) | u64::from(one.component).wrapping_shl(COMPONENT_SHIFT);
        declares.then_some((thread, IS_STAY | place | u64::from(one.life)))
    }

    /// Lets the thread that runs use the registers up to the next entry, with its own in them; false if it may not.
    pub(crate) fn give_floating_point(&mut self, objects: &Objects<'_>) -> bool {
        let Some((thread, stay)) = self.stay(objects) else { return false };
        let Some(kept) = self.machine.floating_point_stay(thread) else { return false };
        self.machine.open_floating_point();
        if self.machine.floating_point_owner() != Some(thread) || kept != stay {
            // Of its own former stay nothing is kept.
            self.machine.load_floating_point(thread, kept == stay);
            self.machine.set_floating_point_stay(thread, stay);
        }
        true
    }

    /// The memory of a component is another one's: what its threads have in registers is nobody's.
    pub(crate) fn forget_floating_point(&mut self, component: u16) {
        for thread in 0..MAX_THREADS as u16 {
            let Some(stay) = self.machine.floating_point_stay(thread) else { break };
            if stay.wrapping_shr(COMPONENT_SHIFT) as u16 == component {
                self.machine.set_floating_point_stay(thread, 0);
            }
        }
    }
}
