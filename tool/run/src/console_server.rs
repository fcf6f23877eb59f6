//! Consoles that are UARTs of the board, for `bulkhead attach`: their bytes come through QEMU and not through rings in RAM, so a run has the only far
//! ends of them, and lets visitors listen and type.
//!
//! Each console has a name behind that of its run, so that who looks for runs does not find it. A visitor that does not read is let go: a console
//! waits for nobody.

use crate::control::listen;
use crate::error::RunError;
use crate::serial::await_bytes;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a visitor is shown of the time before it came.
const BACKLOG_BYTES: usize = 4096;

/// Who listens to a console, and what they missed.
#[derive(Default)]
struct Listeners {
    /// By number.
    visitors: Vec<(u64, UnixStream)>,
    /// How many there have been.
    visits: u64,
    backlog: VecDeque<u8>,
}

/// A console that can be visited.
struct Console {
    name: String,
    listeners: Arc<Mutex<Listeners>>,
    typed: Receiver<Vec<u8>>,
    /// What was typed and not taken yet.
    waiting: Vec<u8>,
}

/// The side of a run.
pub(crate) struct ConsoleServer(Vec<Console>);

/// The name of a console among those of its run's user.
pub(crate) fn place(run: &str, console: &str) -> String {
    format!("{run}/console/{console}")
}

fn lock(listeners: &Mutex<Listeners>) -> MutexGuard<'_, Listeners> {
    listeners.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ConsoleServer {
    /// Listens for visitors of these consoles of a run.
    ///
    /// # Errors
    /// When a name is taken or a thread cannot be started.
    pub(crate) fn start(run: &str, names: &[String]) -> Result<Self, RunError> {
        let start = |name: &String| {
            let (sender, typed) = mpsc::channel();
            let listeners = Arc::default();
            let shared = Arc::clone(&listeners);
            let welcome = move |visitor| welcome(visitor, &shared, &sender);
            listen(&place(run, name), &format!("bulkhead attach {name}"), welcome)?;
            Ok(Console { name: name.clone(), listeners, typed, waiting: Vec::new() })
        };
        names.iter().map(start).collect::<Result<_, RunError>>().map(Self)
    }

    /// Hands what a console printed to those who listen.
    pub(crate) fn tell(&self, name: &str, bytes: &[u8]) {
        let Some(console) = self.0.iter().find(|console| console.name == name) else { return };
        let mut listeners = lock(&console.listeners);
        listeners.backlog.extend(bytes);
        let old = listeners.backlog.len().saturating_sub(BACKLOG_BYTES);
        listeners.backlog.drain(..old);
        listeners.visitors.retain_mut(|(_, visitor)| {
            let is_told = visitor.write_all(bytes).is_ok();
            if !is_told {
                // The thread that hears it type has the connection too.
                let _ = visitor.shutdown(Shutdown::Both);
            }
            is_told
        });
    }

    /// Passes on what was typed, as fast as each console takes it: `send` returns how many bytes that were.
    ///
    /// # Errors
    /// Those of `send`.
    pub(crate) fn forward(
        &mut self,
        mut send: impl FnMut(&str, &[u8]) -> Result<usize, RunError>,
    ) -> Result<(), RunError> {
        for console in &mut self.0 {
            console.waiting.extend(console.typed.try_iter().flatten());
            if !console.waiting.is_empty() {
                let taken = send(&console.name, &console.waiting)?;
                console.waiting.drain(..taken.min(console.waiting.len()));
            }
        }
        Ok(())
    }
}

/// Lets a visitor listen, and takes what it types in a thread of its own, because it may stay.
fn welcome(mut visitor: UnixStream, listeners: &Arc<Mutex<Listeners>>, typed: &Sender<Vec<u8>>) {
    let Ok(mut reader) = visitor.try_clone() else { return };
    // One that does not read must not stop the run.
    if visitor.set_nonblocking(true).is_err() {
        return;
    }
    let number = {
        let mut listeners = lock(listeners);
        if visitor.write_all(listeners.backlog.make_contiguous()).is_err() {
            return;
        }
        listeners.visits += 1;
        let number = listeners.visits;
        listeners.visitors.push((number, visitor));
        number
    };
    let (typed, listeners) = (typed.clone(), Arc::clone(listeners));
    let forward = move || {
        let mut buffer = [0; 1024];
        while await_bytes(&reader) {
            match reader.read(&mut buffer) {
                Ok(count @ 1..) if typed.send(buffer[..count].to_vec()).is_ok() => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                _ => break,
            }
        }
        // A console that prints nothing more would never see that it left.
        lock(&listeners).visitors.retain(|(one, _)| *one != number);
    };
    // Without a thread the visitor listens and cannot type.
    let _ = std::thread::Builder::new().name("typist".to_owned()).spawn(forward);
}

#[cfg(test)]
mod tests {
    use super::{BACKLOG_BYTES, ConsoleServer, lock, place};
    use crate::control::{connect_own, user};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    fn visit(run: &str, name: &str) -> UnixStream {
        connect_own(&place(run, name), user()).expect("it listens")
    }

    fn hear(visitor: &mut UnixStream, bytes: usize) -> Vec<u8> {
        let mut heard = vec![0; bytes];
        visitor.read_exact(&mut heard).expect("it is told");
        heard
    }

    #[test]
    fn a_visitor_hears_what_was_printed_and_types() {
        let run = format!("consoles-{}", std::process::id());
        let names = ["linux", "secure"].map(str::to_owned);
        let mut server = ConsoleServer::start(&run, &names).expect("the names are free");
        server.tell("linux", &[b'x'; 2 * BACKLOG_BYTES]);
        server.tell("linux", b"login: ");
        let mut visitor = visit(&run, "linux");
        // The newest part of what it missed, then what is new; nothing of another console.
        assert!(hear(&mut visitor, BACKLOG_BYTES).ends_with(b"xlogin: "));
        server.tell("secure", b"rtos");
        server.tell("linux", b"# ");
        assert_eq!(hear(&mut visitor, 2), b"# ");
        visitor.write_all(b"ls\n").expect("it takes input");
        let mut taken = Vec::new();
        // A console that takes a byte at a time.
        while taken.len() < 3 {
            server
                .forward(|name, bytes| {
                    taken.push((name.to_owned(), bytes[0]));
                    Ok(1)
                })
                .expect("nothing fails");
        }
        assert_eq!(taken, [b'l', b's', b'\n'].map(|byte| ("linux".to_owned(), byte)));
    }

    /// It would be kept, with two open files, as long as the console prints nothing.
    #[test]
    fn a_visitor_that_left_is_let_go_though_nothing_is_printed() {
        let run = format!("gone-{}", std::process::id());
        let server = ConsoleServer::start(&run, &["linux".to_owned()]).expect("the name is free");
        server.tell("linux", b"hello");
        let mut visitor = visit(&run, "linux");
        assert_eq!(hear(&mut visitor, 5), b"hello");
        let listeners = &server.0[0].listeners;
        let count = || {
            let listeners = lock(listeners);
            (listeners.visitors.len(), listeners.visits)
        };
        drop(visitor);
        let started = Instant::now();
        while count() != (0, 1) {
            assert!(started.elapsed() < Duration::from_secs(30), "{:?}", count());
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_visitor_that_does_not_read_is_let_go() {
        let run = format!("deaf-{}", std::process::id());
        let server = ConsoleServer::start(&run, &["linux".to_owned()]).expect("the name is free");
        server.tell("linux", b"hello");
        let mut visitor = visit(&run, "linux");
        assert_eq!(hear(&mut visitor, 5), b"hello");
        // This returns although nobody reads.
        (0..1024).for_each(|_| server.tell("linux", &[0; 4096]));
        visitor.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        let mut rest = Vec::new();
        let heard = visitor.read_to_end(&mut rest).expect("it ends");
        assert!(heard < 1024 * 4096, "{heard}");
    }
}
