#!/bin/sh
# Breaks the real-time kernel in one place after the other, and says which tests went red: on the host, and of the attacks of EL0 on QEMU with the broken kernel.
#   kernel.sh [PLACE...]      all places, or those that are named; ON=host or ON=qemu looks there alone
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"
places="grant life again rights scratch thread_word flags physical_counter floating_point cache frame stack entry_write top_half dates idle turn background anchor reserve ring drained index bits incarnation zero forgotten forgotten_all uses region_end copied made_like alone limit_grant programs numbers at_home renewed payer lines judge dry passed_over ends last_slice polls share c1 told_before gives drops tells expires looks above waits asked twice given dries blind entry refault own_again worse_level ends_early registers_clear registers_open registers_stay elsewhere stays delays holds early rebound stale_token other_server over_limit moved uncharged due word unasked held_position taken_apart made_whole given_back believes taken_all room void_wire told_above ended_number whole"

# Sets `hosts`, the package and test program that are run on the host, and `attack`, those on QEMU in which an attack must land; none where one of them has nothing that
# would notice.
break_place() {
    hosts='' attack=hostile::suite
    registers=arch/src/el1/kernel/mod.rs
    vectors=arch/src/el1/kernel/vectors.s
    case $1 in
        # An interrupt comes again on the time of a server that does not pay for it.
        elsewhere) hosts='bulkhead-objects --test notifications' attack='' && change core/objects/src/binding.rs 'if binding.server != server {' 'if false && binding.server != server {' ;;
        # Who runs stays as it was chosen when its budget is used up or came back.
        stays) hosts='bulkhead-sched --test kernel_search' attack='' && change core/sched/src/kernel/events.rs 'let stays = left_ticks != 0' 'let stays = true || left_ticks != 0' ;;
        # Who runs keeps nobody away when its level has changed since it was chosen.
        holds) hosts='bulkhead-sched --test choices_in_pieces' attack='' && change core/sched/src/kernel/choose.rs '.filter(|_| !self.running.is_background())?' '.filter(|level| !self.running.is_background() && *level == self.running.level())?' ;;
        # A budget comes back at the date that was filed, though it was charged since.
        early) hosts='bulkhead-sched --test choices_in_pieces' attack='' && change core/sched/src/budget.rs 'Self::Sporadic(rule) => rule.is_due(now),' 'Self::Sporadic(rule) => rule.is_due(now) || true,' ;;
        # A signal wakes a thread where it was bound when its wait began.
        rebound) hosts='bulkhead-objects --test waits' attack='' && change core/objects/src/calls.rs '(scheduler, tcap, tcap, NONE)' '(scheduler, tcap, tcap, one.waits_on)' ;;
        # A signal wakes a thread that has a scheduler as if it had none.
        unasked) hosts='bulkhead-objects --test waits' attack='' && change core/objects/src/calls.rs 'thread.takes_all && thread.scheduler == NONE' 'thread.takes_all' ;;
        # A signal fills a position that a scheduler holds.
        held_position) hosts='bulkhead-objects --test waits' attack='' && change core/objects/src/endpoint.rs '.filter(|position| position.holder == NONE)' '.filter(|_| true)' ;;
        # The fast path wakes a thread that a scheduler could move to another server.
        moved) hosts='bulkhead-kernel --test search' attack='' && change kernel/src/outside.rs 'if self.servers.divides { None } else { self.servers.root(tcap) }' 'self.servers.root(tcap)' ;;
        # A component is taken apart in one piece.
        taken_apart)
            attack=bombs
            change core/objects/src/unwind.rs 'if world.is_interrupted() {
                return false;' 'if false && world.is_interrupted() {
                return false;'
            ;;
        # A process is made in one piece.
        made_whole) attack=bombs && change core/objects/src/build.rs 'Ok(Built::Part) if !world.is_interrupted() => {}' 'Ok(Built::Part) => {}' ;;
        # Pages of a quota that ends are nobody's.
        given_back) hosts='bulkhead-objects --test ended_between_slices' attack=bombs && change core/objects/src/quota.rs 'above.pages = above.pages.saturating_add(pages);' '_ = pages;' ;;
        # Who sends believes that more was taken than there is.
        believes) hosts='bulkhead-channel' attack='' && change core/channel/src/queuing.rs 'if read < self.acknowledged || read > self.written {' 'if read < self.acknowledged {' ;;
        # Who has taken all that there is, is mistaken.
        taken_all) hosts='bulkhead-channel' attack='' && change core/channel/src/queuing.rs 'if read < self.acknowledged || read > self.written {' 'if read < self.acknowledged || read >= self.written {' ;;
        # A full ring joins a part to its last chunk as if that were due later than it is.
        delays) hosts='bulkhead-sched --lib' attack='' && change core/sched/src/budget/sporadic.rs 'again.date_ticks.wrapping_sub(last.amount_ticks)' 'again.date_ticks' ;;
        # A scheduler that does not know of an event says who runs, by the short way of a `switch`.
        stale_token) hosts='bulkhead-objects --test random' attack='' && change core/objects/src/exchange.rs 'one.token == token && ' '' ;;
        # A thread whose limit is over gives the core away, and nobody is told.
        over_limit) hosts='bulkhead-objects --test random' attack='' && change core/objects/src/exchange.rs 'caller.own_ticks() > ticks && ' '' ;;
        # A thread of another server takes a place on this one.
        other_server) hosts='bulkhead-objects --test random' attack='' && change core/objects/src/exchange.rs ' || target.server != server' '' ;;
        # Who comes is charged for who left.
        uncharged) hosts='bulkhead-kernel --test search' attack='' && change kernel/src/claims/choice.rs '        self.accounts_are_right_until(now);' '' ;;
        # What a time-out of `switch` says is not in the timer.
        due) hosts='bulkhead-kernel --test search' attack='' && change kernel/src/exchange.rs '        self.dates_ticks = self.outside.servers.dates_again(self.dates_ticks);' '' ;;
        # A less important thread takes the core by a notification.
        word) hosts='bulkhead-kernel --test search' attack='' && change kernel/src/claims/choice.rs 'to == from || self.room.shares.claims.agree(to, from)' 'true' ;;
        # A full ring is busy twice: for the short way of a RemoteSend, and for the call behind it.
        room) hosts='bulkhead-kernel --test wires' attack='' && change kernel/src/wires.rs 'sender.unread(&Memory { machine, window: row.window }) < WIRE_ENTRIES' 'true' ;;
        # A capability to a wire that was revoked is used.
        void_wire) hosts='bulkhead-kernel --test wires' attack='' && change core/objects/src/endpoint.rs '.is_some_and(|one| one.grant == grant) && grant != WORN' '.is_some()' ;;
        # A scheduler that waits below another one has an event, and that one does not hear of it.
        told_above) hosts='bulkhead-objects --test random' attack='' && change core/objects/src/exchange.rs ' || !self.can_be_told(world, told, server)' '' ;;
        # A number of `switch` stays when a notification has put another claim into the position.
        ended_number) hosts='bulkhead-kernel --test search' attack='' && change kernel/src/claims/choice.rs '                self.end_number(slot, to);' '' ;;
        # The short way is taken where a part of the server's time is for somebody else.
        whole) hosts='bulkhead-kernel --test search' attack='' && change kernel/src/claims/choice.rs 'self.divides && is_whole && ' 'self.divides && ' ;;
        # A capability that was revoked is used.
        grant) hosts='bulkhead-objects --test calls' && change core/objects/src/table.rs 'grant == Some(capability.grant) && grant != Some(WORN)' 'grant.is_some()' ;;
        # A thread continues in a component that was ended since.
        life)
            hosts='bulkhead-objects --test unwinding' attack=''
            change core/objects/src/position.rs 'if self.unwind(world, pair.thread) {' 'if false && self.unwind(world, pair.thread) {'
            ;;
        # A call that was interrupted is not made again.
        again)
            hosts='bulkhead-objects --test unwinding' attack=''
            change core/objects/src/calls.rs '                thread.registers.pc = thread.registers.pc.wrapping_sub(INSTRUCTION_BYTES);
                Outcome::Again' '                Outcome::Again'
            ;;
        # A copy of a capability has more rights than its source.
        rights) hosts='bulkhead-objects --test calls' && change core/objects/src/table.rs 'source.rights & rights as u8' 'rights as u8' ;;
        # What a callee left is in its caller's registers.
        scratch) hosts='bulkhead-objects --test calls' && change core/objects/src/invoke.rs '(self.x[9], self.x[10], self.x[11], self.x[12], self.x[13]) = (0, 0, 0, 0, 0);' '' ;;
        # A thread finds another one's TPIDR_EL0.
        thread_word) change $vectors '    msr     TPIDR_EL0, x3 ' '    nop ' ;;
        # A thread finds another one's flags.
        flags) change $vectors '    msr     SPSR_EL1, x4 ' '    nop ' ;;
        # EL0 reads the physical counter.
        physical_counter) change $registers 'const COUNTER_ACCESS: u64 = 1 << 1;' 'const COUNTER_ACCESS: u64 = 3;' ;;
        # EL0 uses floating point.
        floating_point) change arch/src/el1/kernel/boot.s '    msr     CPACR_EL1, xzr ' '    mov x1, #3 << 20
    msr     CPACR_EL1, x1 ' ;;
        # Who begins to compute finds what another component left.
        registers_clear)
            hosts='' attack=floating
            change arch/src/el1/kernel/floating_point.rs 'None => bulkhead_kernel_clear_floating_point(),' 'None => {}'
            ;;
        # A callee that does not declare floating point finds its caller's registers open.
        registers_open)
            hosts='' attack=floating
            change $vectors '    msr     CPACR_EL1, xzr                          // their use is a fault again' '    nop'
            ;;
        # A thread finds in one component what it left in another one.
        registers_stay)
            hosts='bulkhead-kernel --test floating_point' attack=''
            change kernel/src/floating_point.rs 'self.machine.load_floating_point(thread, kept == stay);' 'self.machine.load_floating_point(thread, kept != 0);'
            ;;
        # EL0 maintains caches.
        cache) change $registers '| 1 << 12 | 1 << 19;' '| 1 << 12 | 1 << 19 | 1 << 26;' ;;
        # A frame of another life is one of this life.
        frame)
            hosts='bulkhead-objects --test unwinding' attack=''
            change core/objects/src/unwind.rs 'self.component(component).is_none_or(|component| component.counters.life != life)' 'self.component(component).is_none_or(|_| life == u32::MAX)'
            ;;
        # The fast path does not give a callee's stack back.
        stack) attack=hostile::deep && change arch/src/el1/kernel/calls.s '    str     x15, [x12, #{free_stacks}]
    // The' '    // The' ;;
        # A component writes its own text.
        entry_write)
            hosts='bulkhead-verify-instance' attack=''
            change core/instance/src/translation.rs 'Self::ComponentText => NORMAL | EL0 | READ_ONLY | PRIVILEGED_NEVER | NOT_GLOBAL,' 'Self::ComponentText => NORMAL | EL0 | PRIVILEGED_NEVER | NOT_GLOBAL,'
            ;;
        # Who was interrupted pays for the top half.
        top_half) hosts='bulkhead-kernel --test time' attack='' && change kernel/src/lib.rs 'self.outside.servers.charge_for(until, server);' 'let _ = (until, server);' ;;
        # A driver pays for the dates of anybody who sleeps.
        dates) hosts='bulkhead-kernel --test time' attack='' && change kernel/src/lib.rs 'if passed_ticks != 0 {' 'if passed_ticks == u64::MAX {' ;;
        # Who has no budget pays for the time in which nobody runs.
        idle) hosts='bulkhead-kernel --test time' attack='' && change kernel/src/lib.rs 'self.objects.nobody_runs();' '' ;;
        # Who calls a service again and again keeps its turn.
        turn) hosts='bulkhead-objects --test attacked' attack='' && change core/objects/src/invoke.rs 'if self.ends_turn_before_service(world, thread) {' 'if false && self.ends_turn_before_service(world, thread) {' ;;
        # Who runs in the background continues when somebody has budget again.
        background)
            hosts='bulkhead-sched --features kernel --test kernel_search' attack=''
            change core/sched/src/kernel/choose.rs 'return Next { stint, deadline_ticks: self.quiet_until_ticks };' 'return Next { stint, deadline_ticks: NEVER };'
            ;;
        # What a top half has interrupted comes back too early.
        anchor) hosts='bulkhead-sched --features kernel --test kernel_search' attack='' && change core/sched/src/kernel/events.rs '            entry.budget.dispatch(until);' '' ;;
        # Who waits for the end of a reservation is not looked at while the choice stands.
        dry) hosts='bulkhead-kernel --test claims' attack='' && change kernel/src/claims/choice.rs 'state.dry.all() | self.room' 'self.room' ;;
        # Nor is who was passed over.
        passed_over) hosts='bulkhead-kernel --test claims' attack='' && change kernel/src/claims/choice.rs 'state.dry.all() | self.room.core.vetoed() == 0' 'state.dry.all() == 0' ;;
        # A thread is not looked at for dead levels though a component has ended.
        ends) hosts='bulkhead-objects --test unwinding' attack='' && change core/objects/src/unwind.rs '        self.ends = self.ends.wrapping_add(1);' '' ;;
        # What was handed on can be used by its giver as well.
        reserve) hosts='bulkhead-sched --features kernel --test tcap' attack='' && change core/sched/src/tcap.rs 'root.capacity_ticks.saturating_sub(reserved_ticks)' 'root.capacity_ticks' ;;
        # A peer's write index that no ring has is believed.
        ring) hosts='bulkhead-channel --test wires' attack='' && change core/channel/src/wire.rs 'let is_possible = count <= WIRE_ENTRIES;' 'let is_possible = true;' ;;
        # A wire is drained until its ring is empty, so a sender that never stops keeps the core.
        drained) hosts='bulkhead-channel --test wires' attack='' && change core/channel/src/wire.rs 'if self.read == self.until {' 'if self.read == unpack(memory.load_acquire(WRITTEN)).1 {' ;;
        # An entry of a wire names another wire's export.
        index) hosts='bulkhead-kernel --test wires' attack='' && change kernel/src/wires.rs '.filter(|index| *index < row.exports)?' '?' ;;
        # It sets bits that are not the export's.
        bits) hosts='bulkhead-kernel --test wires' attack='' && change kernel/src/wires.rs 'entry.bits & !export.bits == 0' 'export.bits != 0' ;;
        # What was read is what the peer says: the receiver has no index of its own.
        incarnation) hosts='bulkhead-channel --test wires' attack='' && change core/channel/src/wire.rs 'if epoch != self.epoch {' 'if epoch != 0 {' ;;
        # A page of the pool has what its last owner left.
        zero) hosts='bulkhead-objects --test memory' attack='' && change core/objects/src/quota.rs '        world.clear(page);
' '' ;;
        # The core remembers where a page was, which is somebody else's now.
        forgotten)
            hosts='bulkhead-objects --test memory' attack=''
            change core/objects/src/space.rs '        world.set_word(place.0, place.1, 0);
        world.forget(component, address);' '        world.set_word(place.0, place.1, 0);'
            ;;
        # And all of a process that was taken apart; its tables may be loaded.
        forgotten_all)
            hosts='bulkhead-objects --test processes' attack=''
            change core/objects/src/ends.rs '                world.forget_all(component);
                (None, Phase::Space)' '                (None, Phase::Space)'
            ;;
        # A page goes back while somebody maps it.
        uses) hosts='bulkhead-objects --test memory --test processes' attack='' && change core/objects/src/quota.rs 'if page.uses != 0 {' 'if false {' ;;
        # Who has a capability to a region maps it after its end.
        region_end)
            hosts='bulkhead-objects --test memory --test processes' attack=''
            change core/objects/src/memory.rs '            counters.revoke();
        }
        let end' '        }
        let end'
            ;;
        # What a fork copied is not known to be its own.
        copied) hosts='bulkhead-objects --test slices' attack='' && change core/objects/src/copy.rs 'copying.given = copying.given.wrapping_add(1);' '' ;;
        # Pages of a fork are not found when it is taken apart.
        made_like) hosts='bulkhead-objects --test processes' attack='' && change core/objects/src/copy.rs 'page.set_groups(page.groups() | groups);' '' ;;
        # A fork is of a process that has another thread.
        alone) hosts='bulkhead-objects --test processes' attack='' && change core/objects/src/process.rs 'if made.threads == 1 {' 'if made.threads != 0 {' ;;
        # A limit tells an end point to which its capability is void.
        limit_grant) hosts='bulkhead-objects --test positions' attack='' && change core/objects/src/position.rs 'told.counters.grant == grant' 'grant != 0' ;;
        # The number of a program is enough to make processes of it.
        programs) hosts='bulkhead-objects --test attacked_processes' attack='' && change core/objects/src/process.rs 'may.wrapping_shr(found.0.into()) & 1 == 0' 'may == 0' ;;
        # A task says how important it is.
        numbers) hosts='bulkhead-objects --test time' attack='' && change core/objects/src/time.rs 'if priority != 0 && priority < permanent() {' 'if permanent() == u64::MAX {' ;;
        # A process that a callee made signals its caller.
        at_home) hosts='bulkhead-objects --test attacked_processes' attack='' && change core/objects/src/process.rs '.filter(|one| one.component == one.home);' ';' ;;
        # What a life did to its memory reaches the next one.
        renewed) hosts='bulkhead-objects --test attacked_processes' attack='' && change core/objects/src/ends.rs '        self.advance(component, None, Phase::Space);
        Ok(false)' '        Ok(true)' ;;
        # Nobody pays for the end of who ends itself.
        payer) hosts='bulkhead-objects --test attacked_processes' attack='' && change core/objects/src/calls.rs 'is_none_or(|(_, is)| is != place)' 'is_none()' ;;
        # The judge of systems/flight does not look at what the intruder got.
        judge) hosts='bulkhead-demo --lib flight' attack='' && change tool/demo/src/flight/claims.rs 'facts.attacks_succeeded() == 0 && ' '' ;;
        # A component has a line on the console for each of its faults.
        lines) hosts='bulkhead-kernel --test logic' attack='' && change kernel/src/lib.rs 'one.supervisor == NONE && one.fault.number == 0' 'one.supervisor == NONE' ;;
        # The core waits though the last slice of an end has started somebody.
        last_slice) hosts='bulkhead-kernel --test time' attack='' && change core/objects/src/unwind.rs '        self.slice(world, component);
        true' '        self.slice(world, component);
        self.ending != 0' ;;
        # A polling server that lost its reservation waits until something else happens.
        polls) hosts='bulkhead-kernel --test claims' attack='' && change kernel/src/claims.rs '        self.room.shares.state.dry.add(slot, NEVER);
        self.time_changed(slot);' '        self.room.shares.state.dry.add(slot, NEVER);' ;;
        # What ends of others is told before who is more important runs.
        told_before) hosts='bulkhead-kernel --test claims' attack='' && change kernel/src/late.rs '!self.is_empty() && waits()' '!self.is_empty()' ;;
        # What servers of a band give back is taken without a look for interrupts.
        gives) hosts='bulkhead-objects --test time' attack='' && change core/objects/src/time.rs '    while world.give_back(now) {
        if world.is_interrupted() {' '    while world.give_back(now) {
        if false {' ;;
        # So are claims on a server that ends.
        drops) hosts='bulkhead-objects --test time' attack='' && change core/objects/src/time.rs '        while has_others && world.drop_claim(server) {
            if world.is_interrupted() {' '        while has_others && world.drop_claim(server) {
            if false {' ;;
        # All who are awake on a claim that ended are told at once.
        tells) attack=hostile::swarm && change kernel/src/lib.rs 'if self.outside.machine.is_interrupted() {
                self.has_looked = true;' 'if false {
                self.has_looked = true;' ;;
        # All claims that are due expire at one entry.
        expires) attack=hostile::swarm && change kernel/src/claims.rs '        // One at an entry: as many' '        while self.room.shares.claims.next_expiry_ticks() <= self.now_ticks() { self.expire_next(); }
        // One at an entry: as many' ;;
        # The choice behind a call belongs to its passage.
        looks) attack=hostile::swarm && change kernel/src/lib.rs '        if self.outside.machine.is_interrupted() {
            self.account_and_take();' '        if false {
            self.account_and_take();' ;;
        # A scheduler above is not told of who is awake below.
        above) hosts='bulkhead-objects --test schedulers_above' attack='' && change core/objects/src/events.rs 'world.tell_parent_later(scheduler, server);' 'let _ = server;' ;;
        # It is told of one that waits again.
        waits) hosts='bulkhead-objects --test schedulers_above' attack='' && change core/objects/src/events.rs 'thread.is_awake() || thread.state' 'true || thread.state' ;;
        # Who is dry is not asked when something was done to its server's time.
        asked) hosts='bulkhead-kernel --test claims' attack='' && change kernel/src/dry.rs 'self.unasked |= self.all & bit(slot);' 'let _ = slot;' ;;
        # A claim that ends twice is told of by the server that it had last.
        twice) hosts='bulkhead-kernel --lib' attack='' && change kernel/src/late.rs 'server.unwrap_or(0).min(if waits { *of } else { NOBODY })' '(server.unwrap_or(0), waits).0' ;;
        # Who is given time of another server is not asked.
        given) hosts='bulkhead-kernel --test claims' attack='' && change kernel/src/claims.rs 'if state.position(slot) == claim {' 'if state.position(slot) == claim && false {' ;;
        # One choice takes out all who have no time left.
        dries) attack=hostile::swarm && change kernel/src/claims/choice.rs 'DRY_UP_AT_ONCE: usize = 1' 'DRY_UP_AT_ONCE: usize = 64' ;;
        # A date of somebody more important is not seen while the timer is off.
        blind) hosts='bulkhead-kernel --test time' attack='' && change kernel/src/lib.rs 'passed.is_none_or(|passed| due < passed)' 'passed.is_none_or(|passed| due < passed) && false' ;;
        # What is done behind an interrupt that waited at a call is not the call.
        entry) hosts='bulkhead-kernel --test logic' attack='' && change kernel/src/lib.rs 'self.objects.repeat_call();' '' ;;
        # A fault is not left for behind an interrupt.
        refault) hosts='bulkhead-kernel --test logic' attack='' && change kernel/src/lib.rs 'let Entry::Synchronous { syndrome, .. } = entry else { return entry };' 'let Entry::Synchronous { syndrome, .. } = entry else { return entry }; if ExceptionClass::of_syndrome(syndrome) != faults::CALL { return entry; }' ;;
        # Who was given time of its own server does not go back to its own.
        own_again) hosts='bulkhead-kernel --test claims' attack='' && change core/objects/src/position.rs 'if has_own && let Some(one)' 'if has_own && false && let Some(one)' ;;
        # A server that works for others keeps out who is between them.
        worse_level) hosts='bulkhead-kernel --test claims' attack='' && change kernel/src/claims/choice.rs 'if is_so { Stint::IDLE } else { chosen }' '(chosen, is_so).0' ;;
        # A claim that has a date is not looked at when it comes.
        ends_early) hosts='bulkhead-kernel --test claims' attack='' && change kernel/src/claims/choice.rs 'now.saturating_add(usable_ticks).min(expires_ticks)' '(now.saturating_add(usable_ticks), expires_ticks).0' ;;
        # A share of the console has no room for a text.
        share) hosts='bulkhead-kernel --lib' attack='' && change kernel/src/text.rs '.unwrap_or(0).max(PRINT_ENTRIES)' '.unwrap_or(0)' ;;
        # A terminal is sent controls above ASCII.
        c1) hosts='bulkhead-kernel --test logic' attack='' && change kernel/src/text.rs "b' '..DELETE | b'\t' => byte," "b' '..DELETE | 0x80..=u8::MAX | b'\t' => byte," ;;
        *) no_place "$1" ;;
    esac
}

# use_kernel: builds the copy's kernel for QEMU.
use_kernel() {
    link_guests
    mkdir -p "$guests/kernel"
    for file in "$here"/target/guests/kernel/*.elf; do ln -sf "$file" "$guests/kernel/"; done
    (cd "$copy" && cargo build --locked --profile bare --target $bare_target --package bulkhead-kernel) >>"$log" 2>&1
    rm -f "$guests/kernel/kernel.elf"
    cp "$copy/target/$bare_target/bare/bulkhead-kernel" "$guests/kernel/kernel.elf"
}

try_place() {
    if [ -n "$hosts" ] && is_asked host; then
        # shellcheck disable=SC2086 # a package and a test program
        on_host -p $hosts
        tell "$1" 'the host' "$log"
    fi
    if [ -n "$attack" ] && is_asked qemu; then
        use_kernel
        (cd "$here" && BULKHEAD_GUESTS=$guests BULKHEAD_MONITOR=$monitor cargo test --locked --no-fail-fast -p bulkhead-system-tests --test kernel -- "$attack") >"$log.qemu" 2>&1 || true
        tell "$1" QEMU "$log.qemu"
    fi
}

try_places "$@"
