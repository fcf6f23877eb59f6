//! Pages of the pool, as the objects need them. No instance has a pool yet: there is no page, so nothing is ever written.

use crate::outside::Outside;
use bulkhead_arch::kernel::KernelMachine;
use bulkhead_objects::Pages;

impl<M: KernelMachine> Pages for Outside<'_, M> {
    fn word(&self, _page: u32, _index: u16) -> u64 {
        0
    }

    fn set_word(&mut self, _page: u32, _index: u16, _word: u64) {}

    fn clear(&mut self, _page: u32) {}

    fn copy(&mut self, _to: u32, _from: u32) {}

    fn copy_image(&mut self, _to: u32, _physical: u64) {}

    fn forget(&mut self, _component: u16, _address: u64) {}

    fn forget_all(&mut self, _component: u16) {}
}
