//! Accesses outside a partition: each is a fault with its kind, address and place, and the health policy does what it says.

use bulkhead_abi::PhysicalAddress;
use bulkhead_abi::observe::Counter;
use bulkhead_abi::status::{
    REASON_BAD_ACCESS, REASON_DATA_ABORT, REASON_INSTRUCTION_ABORT, STATE_RUNNING, STATE_STOPPED, StatusPage,
};
use bulkhead_run::End;
use bulkhead_system_tests::assemble::Program;
use bulkhead_system_tests::remote::{self, GUEST_LOAD, GUEST_RAM};
use bulkhead_system_tests::{Remote, Running, System};

const STOP: &str = "health = { on_fault = \"stop\" }";
const RAM_BYTES: u64 = 4 << 20;
/// Exception classes of aborts from a lower level (Arm ARM D17.2.38).
const INSTRUCTION_ABORT: u64 = 0x20;
const DATA_ABORT: u64 = 0x24;
/// ESR_EL2.WnR.
const WRITE: u64 = 1 << 6;

/// Addresses that no partition of the system `remote` may use, and what they would be.
const OUTSIDE: [(u64, &str); 9] = [
    (0, "the first byte of the board's flash"),
    (0x0801_0000, "behind the distributor"),
    (0x080c_0000, "the next core's redistributor"),
    (0x0900_0000, "the board's UART"),
    (0x0901_0000, "the board's clock, which nobody was given"),
    (GUEST_RAM - 8, "just before RAM"),
    (GUEST_RAM + RAM_BYTES, "just behind RAM"),
    (0x4a00_0008, "far behind RAM, where the board has RAM"),
    (0x7f_ffff_fff0, "the end of what stage 2 can translate"),
];

fn system(policy: &str) -> System {
    let program = remote::program();
    System::with_programs("remote", &[(STOP, policy)], &[("remote", &program)])
}

fn fault_of(status: &StatusPage) -> (u32, u64, u64, u64) {
    (status.fault.reason, status.fault.guest_address, status.fault.program_counter, status.fault.syndrome >> 26)
}

/// Boots the system again for each address, lets the guest fault there, and returns the status page.
fn fault(act: impl FnOnce(&mut Remote, &mut Running)) -> StatusPage {
    let mut running = system(STOP).start();
    let mut guest = Remote::new(&mut running, "remote");
    assert!(guest.answers(&mut running));
    act(&mut guest, &mut running);
    let status = running.wait_for_state("remote", STATE_STOPPED);
    assert_eq!((status.faults, status.fault.vcpu, status.reason), (1, 0, status.fault.reason));
    assert_eq!(running.counter("remote", Counter::Fault), 1);
    running.assert_no_crash();
    // QV-9: the neighbour notices nothing.
    let mut neighbour = Remote::new(&mut running, "neighbour");
    assert!(neighbour.answers(&mut running));
    assert_eq!((running.status("neighbour").state, running.status("neighbour").faults), (STATE_RUNNING, 0));
    status
}

/// QV-9: every load outside is caught by stage 2, with the address and the instruction in the record.
#[test]
fn loads_outside_are_recorded_with_address_and_place() {
    for (address, what) in OUTSIDE {
        let status = fault(|guest, running| guest.load_and_fault(running, address));
        let place = GUEST_LOAD + remote::fault_offsets().0;
        assert_eq!(fault_of(&status), (REASON_DATA_ABORT, address, place, DATA_ABORT), "{what}");
        assert_eq!(status.fault.syndrome & WRITE, 0, "{what}");
        assert_eq!(status.fault.virtual_address, address, "{what}");
    }
}

/// QV-9: and every store.
#[test]
fn stores_outside_are_recorded_with_address_and_place() {
    for (address, what) in OUTSIDE {
        let status = fault(|guest, running| guest.store_and_fault(running, address, 0x5a5a_5a5a));
        let place = GUEST_LOAD + remote::fault_offsets().1;
        assert_eq!(fault_of(&status), (REASON_DATA_ABORT, address, place, DATA_ABORT), "{what}");
        assert_eq!(status.fault.syndrome & WRITE, WRITE, "{what}");
    }
}

/// QV-9: the page that tells a guest about itself can be read and not written.
#[test]
fn the_information_page_is_read_only() {
    let page = bulkhead_guest_abi::guest::GUEST_INFORMATION.0;
    let status = fault(|guest, running| {
        let magic = guest.load(running, page);
        assert_eq!(magic, bulkhead_guest_abi::guest::GUEST_MAGIC & 0xffff_ffff);
        guest.store_and_fault(running, page, 0);
    });
    assert_eq!(status.fault.reason, REASON_DATA_ABORT);
    assert_eq!(status.fault.guest_address, page);
    assert_eq!(status.fault.syndrome & 0x3c, 0xc, "a permission fault");
}

/// QV-9: a jump out of the partition ends at its first instruction.
#[test]
fn jumps_outside_are_recorded_with_their_target() {
    for (address, what) in OUTSIDE {
        let status = fault(|guest, running| guest.jump(running, address & !7));
        let target = address & !7;
        assert_eq!(fault_of(&status), (REASON_INSTRUCTION_ABORT, target, target, INSTRUCTION_ABORT), "{what}");
    }
}

/// QV-9: an access to an emulated register that has no syndrome (a pair of registers) is a fault of its own kind.
#[test]
fn an_access_that_cannot_be_decoded_is_a_fault() {
    let mut program = Program::new();
    program.constant(0, 0x0800_0000);
    let place = GUEST_LOAD + program.offset();
    program.word(0xa940_0801).stay(); // LDP x1, x2, [x0]
    let mut running = System::with_programs("remote", &[], &[("remote", &program)]).start();
    let status = running.wait_for_state("remote", STATE_STOPPED);
    assert_eq!(fault_of(&status), (REASON_BAD_ACCESS, 0x0800_0000, place, DATA_ABORT));
    running.assert_no_crash();
}

/// QV-74, SG-62: a restart scrubs RAM and brings the pristine image back; after `max` restarts the partition is stopped.
#[test]
fn a_restart_scrubs_and_reloads_until_its_limit() {
    const LIMIT_OF_POLICY: u32 = 3;
    let mut running = system("health = { on_fault = \"restart\", max = 3, within = \"600 s\" }").start();
    let ram = running.watch().plan().partitions[0].ram[0].physical;
    let mut pristine = vec![0; RAM_BYTES as usize];
    let mut guest = Remote::new(&mut running, "remote");
    assert!(guest.answers(&mut running));
    let program = remote::program().bytes();
    for restart in 1..=LIMIT_OF_POLICY {
        // A word of data and a word of its own program, far from what it executes.
        guest.store(&mut running, GUEST_RAM + 0x30_0000, 0x1234_5678);
        guest.store(&mut running, GUEST_LOAD, 0xffff_ffff);
        assert_eq!(running.ram().load_u32(PhysicalAddress(ram.0 + 0x30_0000)), Some(0x1234_5678));
        guest.load_and_fault(&running, 0);
        let status = running.wait_for_status("remote", "restart", |status| {
            status.state == STATE_RUNNING && status.generation == restart + 1
        });
        assert_eq!((status.restarts, status.reason), (restart, REASON_DATA_ABORT));
        assert!(running.ram().copy_at(ram, &mut pristine));
        let loaded = &pristine[0x8_0000..0x8_0000 + program.len()];
        assert_eq!(loaded, program, "the program is whole again");
        assert_eq!(pristine[0x30_0000..0x30_0008], [0; 8], "the data is gone");
        guest.forget();
        assert!(guest.answers(&mut running), "the new guest works");
    }
    guest.load_and_fault(&running, 0);
    let status = running.wait_for_state("remote", STATE_STOPPED);
    assert_eq!((status.generation, status.restarts, status.faults), (4, 3, 4));
    running.assert_no_crash();
}

/// SG-60: `halt` stops everything and powers the board off.
#[test]
fn halt_powers_the_board_off() {
    let mut running = system("health = { on_fault = \"halt\" }").start();
    let mut guest = Remote::new(&mut running, "remote");
    assert!(guest.answers(&mut running));
    guest.load_and_fault(&running, 0);
    assert_eq!(running.end(), End::PoweredOff);
    assert_eq!((running.status("remote").state, running.status("remote").reason), (STATE_STOPPED, REASON_DATA_ABORT));
}
