//! The servers of the world plan, for a kernel in C.

use crate::cell::Cell;
use crate::{windows, wish};
use bulkhead_world::flash::{ServerPlan, WorldPlan};
use bulkhead_world::servers::Servers;

static SERVERS: Cell<Servers> = Cell::new(Servers::none());

/// A bit for each server that may run. [`crate::machine`]'s `bulkhead_world_enter` looks at it with interrupts masked.
#[unsafe(no_mangle)]
static BULKHEAD_WORLD_READY: Cell<u32> = Cell::new(0);

/// What happened to a server, or to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Happened {
    /// 0: nothing; 1: an urgent interrupt of the server arrived; 2: the world said in it that it has nothing urgent left, and which one it
    /// wants; 3: its budget is used up; 4: it has budget again; 5: the world may run; 6: it may not; 7: servers are on; 8: they are off; 9: the
    /// world has written another wish.
    pub what: u32,
    /// The server.
    pub server: u32,
    /// What the world wants.
    pub wanted: u64,
}

/// Takes the servers from the plan; none may run yet. Returns how many there are.
///
/// # Safety
/// Interrupts are masked, and `plan` is what the payload was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_servers(plan: *const WorldPlan) -> u64 {
    // SAFETY: EL3 put the plan there and checked it, and nobody can write to it.
    let plan = unsafe { &*plan };
    // SAFETY: the caller's.
    unsafe { *SERVERS.get() = Servers::new(&plan.servers) };
    // SAFETY: the caller's.
    unsafe { wish::start(plan) };
    plan.servers.iter().take_while(|server| server.kind != 0).count() as u64
}

/// The server at this place of the plan; zeros behind the last.
///
/// # Safety
/// `plan` is what the payload was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_server(plan: *const WorldPlan, place: u64) -> ServerPlan {
    // SAFETY: as above.
    let plan = unsafe { &*plan };
    usize::try_from(place).ok().and_then(|place| plan.servers.get(place)).copied().unwrap_or_default()
}

/// Notes what happened. Returns which servers may run now that could not before, a bit for each: their tasks are to be woken.
///
/// # Safety
/// Interrupts are masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bulkhead_world_happened(event: Happened) -> u64 {
    let place = event.server as usize;
    if matches!(event.what, 5 | 6) {
        // SAFETY: the caller's.
        unsafe { windows::set_world(event.what == 5) };
    }
    let what = |servers: &mut Servers| match event.what {
        1 => servers.fired(place),
        2 => servers.yielded(place, event.wanted),
        3 => {
            servers.used_up(place);
            look(servers);
        }
        4 => {
            servers.filled(place);
            look(servers);
        }
        5 => {
            servers.set_world(true);
            look(servers);
        }
        6 => servers.set_world(false),
        7 => servers.set_on(true),
        8 => servers.set_on(false),
        9 => look(servers),
        _ => (),
    };
    // SAFETY: the caller's.
    unsafe { note(what) }
}

/// Of [`bulkhead_world_happened`] alone.
fn look(servers: &mut Servers) {
    // SAFETY: interrupts are masked, as its callers promise.
    unsafe { wish::look(servers) };
}

/// Notes what happened. Returns which servers may run now that could not before, a bit for each.
///
/// # Safety
/// Interrupts are masked.
pub(crate) unsafe fn note(what: impl FnOnce(&mut Servers)) -> u64 {
    // SAFETY: the caller's; `what` sees the servers alone.
    let (servers, ready) = unsafe { (SERVERS.get(), BULKHEAD_WORLD_READY.get()) };
    what(servers);
    let before = core::mem::replace(ready, servers.ready());
    u64::from(*ready & !before)
}
