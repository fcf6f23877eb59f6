//! How `attach`, `stats` and `trace` find a run of this user, and what they get from it.
//!
//! A run listens on a socket in Linux's abstract namespace, so there is no file to leave behind. It says where its RAM and
//! image can be opened (`/proc/PID/fd/N`, which the kernel allows to the same user alone) and then takes bytes for the
//! machine's serial line. All reading is done by the visitor itself, from RAM; a run is not slowed by being watched.
//!
//! Runs of one user who does several things at once, two jobs of CI for example, need not see each other: with
//! `BULKHEAD_RUNS=NAME` in the environment there are only the runs that were started with the same name.

use crate::console_server::place;
use crate::error::RunError;
use crate::image_file::ImagePlan;
use crate::observer::Observer;
use crate::ram::Ram;
use rustix::net::sockopt::socket_peercred;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest name of a group: an abstract name has 107 bytes in all.
const MOST_GROUP_BYTES: usize = 64;
/// Longest greeting believed.
pub(crate) const GREETING_BYTES: u64 = 64 * 1024;
/// How long a run may take to greet.
const PATIENCE: Duration = Duration::from_secs(10);

/// States whether this user is at the other end.
fn is_of(stream: &UnixStream, user: u32) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid.as_raw() == user)
}

pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// What the names of this user's runs begin with. No run has a slash in its name, so that those with a group are apart.
fn prefix(group: Option<&str>) -> String {
    match group {
        None => format!("bulkhead/run/{}/", user()),
        Some(group) => format!("bulkhead/run/{}/{group}/", user()),
    }
}

/// The group that the environment names; the kernel's table ends names at a blank, and a slash would make another group.
fn group() -> io::Result<Option<String>> {
    let Some(name) = std::env::var_os("BULKHEAD_RUNS").filter(|name| !name.is_empty()) else { return Ok(None) };
    let is_usual = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    match name.into_string() {
        Ok(name) if name.len() <= MOST_GROUP_BYTES && name.chars().all(is_usual) => Ok(Some(name)),
        _ => Err(io::Error::other(format!(
            "BULKHEAD_RUNS must be at most {MOST_GROUP_BYTES} letters, digits, `-` and `_`"
        ))),
    }
}

fn address(run: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{}{run}", prefix(group()?.as_deref())))
}

/// Listens under a name of this user's runs until this process ends, and hands each visitor of the same user over, in a thread of its own.
///
/// # Errors
/// When the name is taken or a thread cannot be started.
pub(crate) fn listen(
    name: &str,
    visit: &str,
    mut serve: impl FnMut(UnixStream) + Send + 'static,
) -> Result<(), RunError> {
    let listener = address(name).and_then(|address| UnixListener::bind_addr(&address));
    let listener = listener.map_err(RunError::host(format!("cannot listen for `{visit}`")))?;
    let welcome = move || {
        let own = |visitor: &UnixStream| is_of(visitor, user());
        listener.incoming().flatten().filter(own).for_each(&mut serve);
    };
    let thread = std::thread::Builder::new().name("welcome".to_owned()).spawn(welcome);
    thread.map(drop).map_err(RunError::host("cannot start a thread"))
}

/// The side of a run: greets visitors and collects their input.
pub struct ControlServer {
    input: Receiver<Vec<u8>>,
    greeting: Arc<Mutex<Value>>,
}

impl ControlServer {
    /// Listens under `run` (a process id) and greets each visitor with these facts.
    ///
    /// # Errors
    /// When the name is taken or a thread cannot be started.
    pub fn start(run: &str, system: &str, paths: &(String, String)) -> Result<Self, RunError> {
        let (ram, image) = paths;
        let greeting = json!({ "version": 1, "system": system, "ram": ram, "image": image });
        let (sender, input) = mpsc::channel();
        let greeting = Arc::new(Mutex::new(greeting));
        let current = Arc::clone(&greeting);
        listen(run, "bulkhead attach", move |visitor| welcome(visitor, &current, &sender))?;
        Ok(Self { input, greeting })
    }

    /// Tells visitors from now on what the payload's records come to, which they cannot read by themselves: secure RAM is out of the host's reach.
    pub fn tell_of_payload(&self, sum: Value) {
        self.greeting.lock().unwrap_or_else(PoisonError::into_inner)[PAYLOAD] = sum;
    }

    /// Tells visitors from now on which consoles can be visited by themselves.
    pub(crate) fn tell_of_consoles(&self, names: &[String]) {
        self.greeting.lock().unwrap_or_else(PoisonError::into_inner)[CONSOLES] = json!(names);
    }

    /// Returns input that visitors sent, without waiting.
    #[must_use]
    pub fn next_input(&self) -> Option<Vec<u8>> {
        self.input.try_recv().ok()
    }
}

/// Greets a visitor, and takes what it sends in a thread of its own, because it may stay.
fn welcome(mut visitor: UnixStream, greeting: &Mutex<Value>, input: &Sender<Vec<u8>>) {
    let greeting = format!("{}\n", greeting.lock().unwrap_or_else(PoisonError::into_inner));
    if visitor.write_all(greeting.as_bytes()).is_err() {
        return;
    }
    let input = input.clone();
    let forward = move || {
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = visitor.read(&mut buffer) {
            if input.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    };
    // Without a thread the visitor is dropped, which it sees as the end of the run.
    let _ = std::thread::Builder::new().name("visitor".to_owned()).spawn(forward);
}

/// Returns the runs of this user, as process ids; with a group (`BULKHEAD_RUNS`) those of that group.
///
/// # Errors
/// When the group's name is none.
pub fn find_runs() -> Result<Vec<String>, RunError> {
    let group = group().map_err(RunError::host("cannot look for runs"))?;
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    Ok(runs_in_table(&table, &prefix(group.as_deref())))
}

/// Finds listening sockets with this prefix in the kernel's table; an abstract name begins with `@` there.
fn runs_in_table(table: &str, prefix: &str) -> Vec<String> {
    let names = table.lines().filter_map(|line| line.split_whitespace().nth(7));
    let runs = names.filter_map(|name| name.strip_prefix('@')?.strip_prefix(prefix));
    let mut runs: Vec<String> = runs.filter(|name| !name.contains('/')).map(str::to_owned).collect();
    runs.sort();
    // Accepted connections carry the listener's name too.
    runs.dedup();
    runs
}

/// Key of what a run says of its payload.
const PAYLOAD: &str = "payload";
/// Key of the consoles that are visited by themselves.
const CONSOLES: &str = "consoles";

/// Connects to what this user's run listens at. A run that has ended leaves its names to anybody, so who listens there now is asked.
pub(crate) fn connect_own(name: &str, user: u32) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&address(name)?)?;
    if !is_of(&stream, user) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    Ok(stream)
}

/// A connection to a run.
pub struct Visit {
    /// Name of the system.
    pub system: String,
    /// Live view of its RAM; `None` where no monitor keeps anything there: below a payload of the secure world without partitions.
    observer: Option<Observer>,
    /// What the records of a payload come to, as the run told it; `None` without any.
    payload: Option<Value>,
    /// Consoles that are UARTs, which only the run itself hears.
    consoles: Vec<String>,
    run: String,
    stream: UnixStream,
}

impl Visit {
    /// Connects to a run: the named one, or the only one there is.
    ///
    /// # Errors
    /// When there is no run, or more than one and none was named.
    pub fn connect(run: Option<&str>) -> Result<Self, RunError> {
        let run = match run {
            Some(run) => run.to_owned(),
            None => only_run(find_runs()?)?,
        };
        let stream = match connect_own(&run, user()) {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(RunError::Other(format!("run {run} belongs to another user")));
            }
            Err(_) => {
                return Err(RunError::Other(format!("there is no run {run} of yours. {}", advice(&find_runs()?))));
            }
        };
        let greeting = greeting_of(&stream).map_err(RunError::host(format!("run {run} does not answer")))?;
        let text = |key: &str| greeting[key].as_str().unwrap_or_default().to_owned();
        let observer = observer_of(Path::new(&text("ram")), Path::new(&text("image")))?;
        let payload = Some(greeting[PAYLOAD].clone()).filter(|sum| !sum.is_null());
        let consoles = greeting[CONSOLES].as_array().into_iter().flatten();
        let consoles = consoles.filter_map(Value::as_str).map(str::to_owned).collect();
        Ok(Self { system: text("system"), observer, payload, consoles, run, stream })
    }

    /// Returns the live view of RAM.
    ///
    /// # Errors
    /// When no monitor keeps anything there.
    pub fn observer(&self) -> Result<&Observer, RunError> {
        self.observer.as_ref().ok_or_else(|| RunError::Other(format!("{} {NO_MONITOR}", self.system)))
    }

    /// Returns what the records of a payload came to when the run was connected to; `None` without any.
    #[must_use]
    pub fn payload(&self) -> Option<&Value> {
        self.payload.as_ref()
    }

    /// The consoles that are UARTs of the board.
    #[must_use]
    pub fn consoles(&self) -> &[String] {
        &self.consoles
    }

    /// Connects to one of them.
    ///
    /// # Errors
    /// When the run has ended.
    pub(crate) fn console(&self, name: &str) -> Result<UnixStream, RunError> {
        connect_own(&place(&self.run, name), user())
            .map_err(RunError::host(format!("cannot connect to console {name} of run {}", self.run)))
    }

    /// Gives away the live view of RAM, if there is one, and what is known of a payload.
    #[must_use]
    pub fn into_parts(self) -> (Option<Observer>, Option<Value>) {
        (self.observer, self.payload)
    }

    /// Sends bytes to the machine's serial line.
    ///
    /// # Errors
    /// When the run has ended.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.stream.write_all(bytes).map_err(RunError::host("the run has ended"))
    }

    /// States whether the run has ended (its side of the connection is closed).
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        let mut nothing = [0; 1];
        let ready = self.stream.set_nonblocking(true).and_then(|()| self.stream.read(&mut nothing));
        let _ = self.stream.set_nonblocking(false);
        !matches!(ready, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// Why nothing can be read of a machine without a monitor at EL2, and what can be done.
const NO_MONITOR: &str = "has no monitor at EL2, which would keep counters and traces in RAM: below its payload there is one world, or none, and \
                          secure RAM is out of the host's reach\n  \
                          help: with `[trace] enabled = true` in the description `bulkhead stats` shows what the payload records, and `bulkhead run \
                          --trace` writes who ran; `bulkhead attach` connects to both consoles";

/// Opens RAM for looking at it; `None` where no monitor keeps anything there.
fn observer_of(ram: &Path, image: &Path) -> Result<Option<Observer>, RunError> {
    let Some(plan) = ImagePlan::of_machine(image)? else { return Ok(None) };
    let ram = Ram::open(ram, plan.header.banks())?;
    Ok(Some(Observer::new(Arc::new(ram), Arc::new(plan))))
}

fn greeting_of(stream: &UnixStream) -> io::Result<Value> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::with_capacity(1, stream.take(GREETING_BYTES)).read_line(&mut line)?;
    stream.set_read_timeout(None)?;
    Ok(serde_json::from_str(&line)?)
}

fn only_run(runs: Vec<String>) -> Result<String, RunError> {
    match runs.as_slice() {
        [run] => Ok(run.clone()),
        _ => Err(RunError::Other(advice(&runs))),
    }
}

fn advice(runs: &[String]) -> String {
    match runs {
        [] => "No machine of yours is running; start one with `bulkhead run`.".to_owned(),
        runs => format!("These runs of yours exist: {}. Choose one with `--run`.", runs.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_in_the_kernel_table() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 23456 @bulkhead/run/1000/4711\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 23457 @bulkhead/run/1000/4711\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 23458 @bulkhead/run/1001/5000\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 23461 @bulkhead/run/1000/job/4712\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 23459\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 23460 /run/bulkhead/run/1000/1\n";
        assert_eq!(runs_in_table(table, "bulkhead/run/1000/"), ["4711"]);
        assert_eq!(runs_in_table(table, "bulkhead/run/1000/job/"), ["4712"]);
        assert_eq!(runs_in_table("", "bulkhead/run/1000/"), [""; 0]);
    }

    /// Anybody may listen at a name once its run is gone. For a test this process is somebody else.
    #[test]
    fn who_listens_at_a_name_must_be_this_user() {
        let name = format!("other-{}", std::process::id());
        listen(&name, "a test", drop).expect("the name is free");
        assert!(connect_own(&name, user()).is_ok());
        let refused = connect_own(&name, user() + 1).expect_err("somebody else listens").kind();
        assert_eq!(refused, io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn without_a_choice_the_only_run_is_taken() {
        assert_eq!(only_run(vec!["7".to_owned()]).expect("one run"), "7");
        let none = only_run(Vec::new()).expect_err("no run").to_string();
        assert!(none.contains("start one with `bulkhead run`"), "{none}");
        let two = only_run(vec!["7".to_owned(), "8".to_owned()]).expect_err("two runs").to_string();
        assert!(two.contains("7, 8") && two.contains("`--run`"), "{two}");
    }
}
