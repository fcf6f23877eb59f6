//! Firmware that does what it is told and says so.

use super::*;

impl Firmware for FakeMachine {
    fn start_core(&self, mpidr: u64, _: u64) -> Result<(), FirmwareError> {
        self.note(Event::StartCore(mpidr));
        Ok(())
    }
    fn power_off(&self, _: impl MayPowerOff) {
        self.note(Event::PowerOff);
    }
}
