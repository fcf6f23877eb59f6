//! Registers of the guest as plain values.

use super::*;

impl GuestRegisters for FakeMachine {
    fn exit_registers(&self) -> ExitRegisters {
        let (fault_address, fault_page) = self.exit.get();
        ExitRegisters { fault_address, fault_page }
    }
    fn guest_program_counter(&self) -> u64 {
        self.program_counter.get()
    }
    fn set_guest_program_counter(&self, value: u64) {
        self.program_counter.set(value);
    }
    fn guest_state(&self) -> u64 {
        self.registers.get()[1]
    }
    fn set_guest_state(&self, value: u64) {
        let mut registers = self.registers.get();
        registers[1] = value;
        self.registers.set(registers);
    }
    fn inject_synchronous(&self, syndrome: u64) {
        self.note(Event::Inject(syndrome));
    }
    fn reset_guest(&self, entry: u64) {
        self.program_counter.set(entry);
        self.note(Event::ResetGuest(entry));
    }
    fn load_controls(&self, plan: &VcpuPlan) {
        self.translation_root.set(plan.vttbr);
    }
    fn save_guest(&self, context: &mut GuestContext) {
        context.registers = self.registers.get();
        context.registers[0] = self.program_counter.get();
    }
    fn load_guest(&self, context: &GuestContext, plan: &VcpuPlan) {
        self.registers.set(context.registers);
        self.program_counter.set(context.registers[0]);
        self.translation_root.set(plan.vttbr);
    }
    fn save_floating_point(&self, registers: &mut FloatingPoint) {
        *registers = self.floating_point.get();
    }
    fn load_floating_point(&self, registers: &FloatingPoint) {
        self.floating_point.set(*registers);
    }
    fn trap_floating_point(&self, on: bool) {
        self.floating_point_traps.set(on);
    }
    fn guest_timer_asserted(&self) -> bool {
        self.guest_timer_ticks() <= self.now.get()
    }
    fn guest_timer_ticks(&self) -> u64 {
        GuestContext { registers: self.registers.get(), ..GuestContext::default() }.timer_ticks()
    }
    fn invalidate_guest_translations(&self) {}
}
