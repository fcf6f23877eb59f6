//! Servers that are made at run time, on a core: what a band comes to. On the board: numbers of dates are not the same in a partition.

use crate::places::{Place, run};
use crate::servers::{MILLISECOND, numbers, sporadic, unlimited};
use bulkhead_instance::{Component, Instance, Shares, Thread, write};
use bulkhead_kernel_abi::boot::{BandRow, ServerRow};
use bulkhead_kernel_abi::{Capability, Kind};
use bulkhead_system_tests::system::guest;

/// What the probe calls it.
const MAKES: u64 = 132;

/// The probe with these arguments, each in a component of its own and on a server; all have the same capabilities.
fn probes(threads: &[(u64, u16)], servers: Vec<ServerRow>, capabilities: &[Capability], shares: Shares) -> Vec<u8> {
    let (kernel, program) = (guest("kernel/kernel.elf"), guest("kernel/probe.elf"));
    let component = |(argument, server): &(u64, u16)| Component {
        name: format!("probe-{argument}"),
        program: &program,
        threads: vec![Thread { argument: *argument, stack_bytes: 8192, server: *server }],
        capabilities: capabilities.to_vec(),
        ..Component::default()
    };
    let instance = Instance {
        server_names: Vec::new(),
        kernel: &kernel,
        components: threads.iter().map(component).collect(),
        end_points: Vec::new(),
        servers,
        bindings: Vec::new(),
        shares,
        wires: Vec::new(),
        processes: bulkhead_instance::Processes::default(),
    };
    write(&instance).unwrap_or_else(|error| panic!("{error}"))
}

fn capability(kind: Kind, object: u16) -> Capability {
    Capability { kind: kind.number(), rights: kind.rights(), object, grant: 1, word: 1 }
}

fn said(image: &[u8]) -> Vec<String> {
    let board = run(image, Place::Board);
    println!("{board:#?}");
    board
}

/// QV-20, QV-37: a band admits as many as its budget has room for, with the published test and without; time of one that ended comes back first.
#[test]
fn servers_are_made_within_a_band() {
    for admission in [0, 1] {
        let slots = [vec![Capability::NULL; 4], vec![capability(Kind::Band, 0)], vec![Capability::NULL; 12]].concat();
        let in_band = ServerRow { band: 0, ..sporadic(0, 0) };
        let servers = [vec![in_band; 8], vec![unlimited(1)]].concat();
        let band = BandRow {
            shortest_period_ticks: 10 * MILLISECOND,
            longest_period_ticks: 100 * MILLISECOND,
            // Five times a hundredth of the period.
            budget_ticks: 5 * MILLISECOND / 10,
            smallest_budget_ticks: 1000,
            servers: 8,
            admission,
            ..BandRow::default()
        };
        let shares = Shares { bands: vec![band], ..Shares::default() };
        let said = said(&probes(&[(MAKES, 8)], servers, &slots, shares));
        let made = numbers(&said, "made ")[0];
        assert_eq!((made, said[0].ends_with("then NotAdmitted")), (5, true), "{said:?}");
        assert_eq!(said[1], "ended one: Ok(()), another at once: Err(NotAdmitted), a period later: Ok(())");
    }
}
