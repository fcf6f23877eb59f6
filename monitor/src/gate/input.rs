//! Console input of a `direct` guest: the UART's interrupt would come to the guest that has its core, so it stays routed to the core of a `mapped`
//! partition, which *hands it over* while the guest has the focus (design record 0040).
//!
//! The interrupt stays active meanwhile, so nobody takes another one. Who hands over counts in its status page and kicks; the kicked core does
//! what every core in focus does, says so by the same count in its own page, and ends the interrupt. A thief of active states (A12) can make it come
//! again too early, therefore the counts say who may touch the UART: while they differ, the kicked core alone. And it is disabled until that core was
//! there, or a thief beside a guest that is being restarted would make the giver enter its monitor for each theft.

use super::*;

/// [`status::StatusPage::focus_given`] and, above it, [`status::StatusPage::input_handed`]: read as one, so that both are of one moment.
const WORDS: u64 = offset_of!(status::StatusPage, focus_given) as u64;

impl<M: Machine> Vcpu<M> {
    /// Hands the UART's interrupt over, which was acknowledged here, unless it is for the own guest. Both partitions have given the focus away as
    /// often as each other, or this one once more: then the other one has it. After a theft that one may have given it to a third meanwhile.
    pub(crate) fn hands_over_input(&self) -> bool {
        // The words are looked at when the interrupt is this core's: the other core says its count before it ends one.
        self.machine.barrier();
        let [own, other] = self.input_words();
        // The route was moved before the words say so.
        self.machine.barrier();
        let is_elsewhere = self.routed_to(self.plan.uart_interrupt) != self.plan.mpidr;
        if own != other {
            // However often a thief ends it, it does not come again before the other core was there, which may take as long as a restart. After a
            // theft that was faster the other core may have enabled it already.
            if own >> 32 == other >> 32 {
                self.store_input_bit(gic::ICENABLER);
                // Before the count says that the other core may enable it: the later one of both holds.
                self.machine.barrier();
            }
            // What it is already when the interrupt was stolen.
            let handed = self.status_place(offset_of!(status::StatusPage, input_handed));
            self.machine.publish32(handed, ((other >> 32) as u32).wrapping_add(1));
            self.machine.kick(u64::from(self.plan.handed_mpidr));
        } else if is_elsewhere {
            self.machine.deactivate(self.plan.uart_interrupt);
        }
        own != other || is_elsewhere
    }

    /// Takes what the UART received when that was handed over to this core.
    pub(super) fn take_handed_input(&mut self) {
        let [own, other] = self.input_words();
        if !self.is_mapped() && own >> 32 != other >> 32 {
            self.console_input();
            let handed = self.status_place(offset_of!(status::StatusPage, input_handed));
            self.machine.publish32(handed, (other >> 32) as u32);
            // The UART was read, and the focus is where it will be, before another core takes its turn.
            self.machine.barrier();
            self.store_input_bit(gic::ICACTIVER);
            self.store_input_bit(gic::ISENABLER);
        }
    }

    fn store_input_bit(&self, register: u64) {
        let intid = Intid(self.plan.uart_interrupt);
        self.machine.store32(at(self.plan.gicd, gic::bit_word(register, intid)), intid.bit());
    }

    /// The words of this partition, and of the one with which it hands over: its own once more when there is none.
    fn input_words(&self) -> [u64; 2] {
        [self.plan.status, self.plan.handed_status].map(|page| self.machine.load64(at(page, WORDS)))
    }
}
