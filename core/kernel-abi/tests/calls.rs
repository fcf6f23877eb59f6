//! The table of calls is whole and keeps the convention; codes and kinds are those of the design.

use bulkhead_kernel_abi::call::{
    Bound, Call, CapabilityOperation, ComponentOperation, InterruptOperation, MemoryOperation, ROWS, ServerOperation,
    TcapOperation, ThreadOperation,
};
use bulkhead_kernel_abi::capability::{TOKEN_MASK, entry_word, right};
use bulkhead_kernel_abi::{Capability, Code, Kind};

/// How many operations a call has.
fn operations(call: Call) -> usize {
    match call {
        Call::Tcap => TcapOperation::ALL.len(),
        Call::Interrupt => InterruptOperation::ALL.len(),
        Call::Thread => ThreadOperation::ALL.len(),
        Call::Server => ServerOperation::ALL.len(),
        Call::Memory => MemoryOperation::ALL.len(),
        Call::Capability => CapabilityOperation::ALL.len(),
        Call::Component => ComponentOperation::ALL.len(),
        _ => 1,
    }
}

#[test]
fn every_call_and_operation_has_one_row_in_order() {
    let mut rows = ROWS.iter();
    for (number, call) in (0..).zip(Call::ALL) {
        assert_eq!((call.number(), Call::from_number(number)), (number as u16, Some(*call)));
        for operation in 0..operations(*call) {
            let row = rows.next().expect("a row");
            assert_eq!(row.call, *call);
            let said = row.operation.map(|(number, ..)| number);
            assert_eq!(said, (operations(*call) > 1).then_some(operation as u64), "{}", call.name());
        }
    }
    assert!(rows.next().is_none());
    assert_eq!(Call::from_number(16), None);
}

#[test]
fn registers_are_those_of_the_convention() {
    for row in ROWS {
        let what = (row.call.name(), row.operation);
        for list in [row.arguments, row.answers] {
            for (at, (register, meaning)) in list.iter().enumerate() {
                assert!(*register < 8 || row.call == Call::Invoke && *register == 8, "{what:?}");
                assert!(!meaning.is_empty() && list[..at].iter().all(|(other, _)| other != register), "{what:?}");
            }
        }
        // The operation, and the code, have x0 for themselves.
        assert!(row.operation.is_none() || row.arguments.iter().all(|(register, _)| *register != 0), "{what:?}");
        assert!(row.answers.iter().all(|(register, _)| *register != row.code_register()), "{what:?}");
        assert!(row.codes.iter().all(|code| !Code::COMMON.contains(code)), "{what:?}");
        // CH-60: each has a bound.
        assert!(!matches!(row.bound, Bound::Steps(0)), "{what:?}");
    }
}

#[test]
fn codes_and_kinds_are_those_of_the_design() {
    let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    let design = "Ok WouldBlock Busy NoTime NotAdmitted Denied BadCapability BadArgument Stale Gone Faulted TimedOut NoStack TooDeep Full BadCall";
    assert_eq!(names.join(" "), design);
    assert!(Code::ALL.iter().zip(0..).all(|(code, number)| code.number() == number));
    for (kind, number) in Kind::ALL.iter().zip(0..) {
        assert_eq!((kind.number(), Kind::from_number(number)), (number as u8, Some(*kind)));
        assert_eq!(kind.rights() != 0, *kind != Kind::Null);
        // What fork may hand to a child has no power over others.
        assert!(
            !kind.is_copied_by_fork() || kind.rights() & !(right::USE | right::REVOKE) == 0 || *kind == Kind::Memory
        );
    }
    assert_eq!(Kind::from_number(15), None);
}

#[test]
fn an_entry_and_a_token_share_a_word() {
    let capability = Capability { word: entry_word(0xabcd, u64::MAX), ..Capability::NULL };
    assert_eq!((capability.entry(), capability.token()), (0xabcd, TOKEN_MASK));
    let capability = Capability { word: entry_word(7, 0x40_0000_1000), rights: right::USE, ..Capability::NULL };
    assert_eq!((capability.entry(), capability.token()), (7, 0x40_0000_1000));
    assert!(capability.has(right::USE) && !capability.has(right::USE | right::READ));
    assert_eq!(Capability { kind: 200, ..Capability::NULL }.kind(), None);
}
