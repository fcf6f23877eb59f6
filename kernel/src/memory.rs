//! Pages of the pool, as the objects need them: the machine's, by the numbers of its pages and of address spaces.

use crate::outside::Outside;
use bulkhead_arch::kernel::KernelMachine;
use bulkhead_objects::Pages;

/// The ASID of a component, as the objects put it into its TTBR0_EL1: 0 is that of no component.
const fn asid(component: u16) -> u16 {
    component.wrapping_add(1)
}

impl<M: KernelMachine> Pages for Outside<'_, M> {
    fn word(&self, page: u32, index: u16) -> u64 {
        self.machine.pool_word(page, index)
    }

    fn set_word(&mut self, page: u32, index: u16, word: u64) {
        self.machine.set_pool_word(page, index, word);
    }

    fn clear(&mut self, page: u32) {
        self.machine.clear_page(page);
    }

    fn copy(&mut self, to: u32, from: u32) {
        self.machine.copy_page(to, from);
    }

    fn copy_image(&mut self, to: u32, physical: u64) {
        self.machine.copy_image(to, physical);
    }

    fn forget(&mut self, component: u16, address: u64) {
        self.machine.forget(asid(component), address);
    }

    fn forget_all(&mut self, component: u16) {
        self.machine.forget_all(asid(component));
        self.forget_floating_point(component);
    }
}
