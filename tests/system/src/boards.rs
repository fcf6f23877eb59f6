//! Which scenarios run on which board.
//!
//! A description names its board, and `BULKHEAD_BOARD` names another one in its place, so a scenario is written once. On the default board of
//! the built-in ones all of them run. Of every other board this table says two things: which scenarios `./x test` runs there, and which cannot
//! run there and why. The rest runs with `./x bench boards --suite`, which fails when a scenario of the rest fails, and when one
//! that cannot run there could. The page about it in the book is made from this table.
//!
//! Rejected: a test that ends early on a board that it does not fit. It would be counted as passed.

use bulkhead_description::Options;
use bulkhead_description::board::{BUILT_IN, built_in_board};
use bulkhead_plan::model::Board;

/// The board of this run: that of the environment, or the default one.
///
/// # Panics
/// When the environment names none that is built in.
#[must_use]
pub fn board() -> Board {
    let named = Options::from_environment(None).board;
    let name = named.as_deref().unwrap_or(BUILT_IN.default);
    built_in_board(name).unwrap_or_else(|| panic!("there is no built-in board {name}"))
}

/// Why a scenario cannot run on a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It needs more cores than the board has.
    Cores,
    /// It needs a clock whose alarm rings.
    Clock,
    /// It needs a boot loader for the board.
    BootLoader,
    /// It names its boards itself, so the run of the default board is the run for all.
    OwnBoards,
}

impl Reason {
    /// All reasons, in the order of the page.
    pub const ALL: [Self; 4] = [Self::Cores, Self::Clock, Self::BootLoader, Self::OwnBoards];

    /// What is in the way, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Cores => "needs more cores than the board has",
            Self::Clock => "needs a clock (PL031) whose alarm rings",
            Self::BootLoader => "needs a boot loader, and none is known for the board",
            Self::OwnBoards => {
                "names its boards or machines itself: its run beside those of the default board is for all"
            }
        }
    }

    /// What a scenario says when it is run there nevertheless; `None` if nothing stops it at once.
    #[must_use]
    pub const fn sign(self) -> Option<&'static str> {
        match self {
            Self::Cores => Some("BH0201"),
            // The last line of a guest, before it touched the clock.
            Self::Clock => Some(" start\"]"),
            Self::BootLoader => Some("the board names a boot loader"),
            Self::OwnBoards => None,
        }
    }
}

/// What is to be known of the suite on a board.
#[derive(Clone, Copy, Debug)]
pub struct OnBoard {
    /// Name of the board.
    pub board: &'static str,
    /// What `./x test` runs there: all attacks, and what touches priorities, groups, timers, restarts and memory.
    pub short: &'static [&'static str],
    /// What cannot run there.
    pub cannot: &'static [(Reason, &'static [&'static str])],
}

impl OnBoard {
    /// Why a scenario cannot run there; `None` if it can.
    #[must_use]
    pub fn reason(&self, scenario: &str) -> Option<Reason> {
        self.cannot.iter().find(|(_, names)| names.contains(&scenario)).map(|(reason, _)| *reason)
    }
}

/// What is said of a board; `None` for the default one, on which everything runs.
#[must_use]
pub fn on(board: &str) -> Option<&'static OnBoard> {
    BOARDS.iter().find(|one| one.board == board)
}

/// Every built-in board but the default one.
pub const BOARDS: &[OnBoard] = &[OnBoard { board: "xlnx-versal-virt", short: VERSAL_SHORT, cannot: VERSAL_CANNOT }];

const VERSAL_SHORT: &[&str] = &[
    // Attacks: the list beside victims on the same core, what a restart or a watchdog ends, a PCI bus, and random steps of each kind
    // of attacker.
    "attacked_ticks::every_tick_above_every_attack_is_in_time",
    "attacked_ticks::random_steps_above_by_a_deferrable_budget",
    "attacked_ticks::random_steps_behind_a_gate_that_returns",
    "attacked_ticks::random_steps_in_a_time_table",
    "attacked_ticks::random_steps_in_turns_that_are_recycled",
    "attacked_ticks::random_steps_on_four_other_cores",
    "hostile::a_guest_with_a_pci_bus_gains_nothing",
    "hostile::silence_ends_in_a_restart_after_every_priority_attack",
    "hostile::switching_off_is_a_state",
    "isolation::a_hostile_guest_changes_nothing_outside",
    // Priorities and groups; those of `priorities` run on every board anyway.
    "direct::a_direct_guest_that_is_restarted_in_a_handler_takes_interrupts",
    "direct::direct_guests_interrupt_each_other_across_cores",
    "loader_state::nothing_rests_on_what_a_loader_leaves_in_registers",
    "loader_state::nothing_that_a_loader_left_reaches_a_guest",
    "shared_hostile::a_redistributor_is_each_guests_own",
    "shared_hostile::priorities_of_private_interrupts_are_each_guests_own",
    "shared_private::group_0_of_one_guest_stops_no_other",
    // The registers of this type of core.
    "core_state::an_attempt_on_what_is_not_switched_is_seen_by_nobody",
    "own_registers::every_register_that_a_core_lets_a_guest_read_is_listed",
    // Timers and interrupts.
    "channels::newest_values_arrive_and_the_limiter_holds",
    "routed::an_interrupt_waits_for_a_vcpu_that_is_off",
    "shared_private::a_timer_that_is_cleared_silences_no_other",
    "shared_wakeups::doorbells_from_another_core_all_arrive",
    "shared_wakeups::the_most_important_one_wakes_at_its_date",
    "steady::a_mapped_guest_has_one_exit_per_interrupt",
    "steady::a_sent_sgi_is_one_exit_more",
    // Starts and restarts.
    "core_state::a_start_finds_nothing_of_the_life_before",
    "core_state::cpu_on_finds_nothing_of_the_life_before",
    "faults::a_restart_scrubs_and_reloads_until_its_limit",
    "hello::two_cores_say_hello",
    "linux::two_cpus_run_programs",
    "shared_lifecycle::a_manager_on_another_core_manages",
    "watchdog::the_watchdog_watches_the_restarted_guest_too",
    // Memory.
    "boot::a_damaged_plan_is_refused",
    "boot::nothing_rests_on_what_ram_held_before",
    "faults::jumps_outside_are_recorded_with_their_target",
    "faults::loads_outside_are_recorded_with_address_and_place",
    "faults::stores_outside_are_recorded_with_address_and_place",
    "faults::the_information_page_is_read_only",
];

const VERSAL_CANNOT: &[(Reason, &[&str])] = &[
    (
        Reason::Cores,
        &[
            "boot_loader::u_boot_starts_four_cores",
            "bulkheadctl::linux_manages_partitions",
            "bulkheadctl::linux_uses_channels",
            "channels::a_receivers_limit_holds_for_all_senders_together",
            "flapping::six_vcpus_stand_and_start_anew",
            "flapping::six_vcpus_that_are_switched_on_at_once_come",
            "freertos::three_of_them_on_three_cores_print_the_same",
            "hello::eight_cores_say_hello",
            "hello::four_cores_say_hello",
            "hostile::a_direct_guest_holds_back_its_own_interrupts",
            "hostile::a_foreign_interrupt_is_ended_by_a_direct_guest_alone",
            "hostile::every_attack_ends_as_expected",
            "hostile::nobody_else_notices",
            "hostile::nothing_of_others_changes",
            "hostile::the_limiter_holds_back_a_storm_of_doorbells",
            "hostile::the_table_of_attacks_is_current",
            "manage::a_manager_is_denied_what_cannot_be",
            "manage::a_manager_restarts_what_is_off",
            "manage::a_manager_suspends_resumes_and_restarts",
            "manage::a_partition_that_does_not_manage_is_denied",
            "pair::a_fault_of_either_vcpu_restarts_both",
            "pair::both_vcpus_are_suspended_and_go_on",
            "pair::both_vcpus_start_anew",
            "pair::power_calls_of_the_second_vcpu_count",
        ],
    ),
    (
        Reason::Clock,
        &[
            "device::its_owner_gets_registers_and_interrupt",
            "shared_nested::a_device_interrupts_the_handler_of_a_woken_guest",
            "shared_wakeups::a_device_wakes_its_owner",
            "steady::processes_of_a_direct_guest_cost_no_exit",
            "steady::processes_of_a_mapped_guest_cost_its_interrupts_alone",
        ],
    ),
    (
        Reason::BootLoader,
        &[
            "boot_loader::a_boot_loader_that_gives_up_is_quoted",
            "boot_loader::an_image_that_was_put_elsewhere_says_where_it_is",
            "boot_loader::u_boot_enters_as_the_boot_protocol_says",
            "boot_loader::u_boot_starts_hello",
            "boot_loader::u_boot_starts_shared",
        ],
    ),
    (
        Reason::OwnBoards,
        &[
            "boot_loader::an_image_that_cannot_start_says_why",
            "boards::a_core_of_another_type_than_the_board_file_says_is_refused_by_name",
            "boards::a_further_core_of_another_type_does_not_enter_its_guest",
            "boards::a_map_of_the_monitor_with_a_level_more_runs",
            "boards::partitions_run_in_either_bank_of_ram",
            "both_boards::guests_are_the_same_on_both_boards",
            "hello::another_load_address_says_hello",
            "priorities::a_guest_has_32_levels_on_every_board",
            "priorities::an_interrupt_that_the_board_has_not_is_a_crash_by_name",
            "priorities::other_security_states_than_the_board_file_says_are_a_crash_by_name",
            "versal_devices::bytes_for_a_uart_that_is_no_device_are_refused",
            "versal_devices::linux_drives_the_second_uart",
            "versal_devices::the_clock_is_its_owners_alone_and_never_rings",
        ],
    ),
];
