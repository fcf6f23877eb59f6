//! The second half of QV-E9: two instances on two cores, and every size of parcels over a port of 4 KiB.

use super::must_be;
use crate::Failure;
use crate::experiments::Findings;
use crate::lab::Lab;
use bulkhead_run::End;
use bulkhead_system_tests::kernel::cores::{self, Channel, Member, UNLIMITED};

/// This end sends, in the argument of the component `parcels`.
const SENDS: u64 = 1 << 32;
/// 64 bytes to 256 KiB, doubled.
const SIZES: u64 = 13;
/// All of them together.
const BYTES: u64 = (512 << 10) - 64;
/// Two pieces with what the protocol adds are a page.
const SHAPE: (u32, u32) = (1936, 2);

fn member(name: &'static str, argument: u64, [inbox, outbox]: [&str; 2]) -> Member {
    let text = format!(
        r#"version = 1
server = [{{ name = "main" }}]

[[component]]
name = "parcels"
program = "component:parcels.elf"
threads = [{{ name = "main", server = "main", argument = {argument} }}]
end_points = [{{ thread = "main", signals = ["arrived"] }}]
ports = ["{inbox}", "{outbox}"]
interrupts = [{{ name = "{inbox}", signal = "arrived" }}]
bind = {{ inbox = "port:{inbox}", outbox = "port:{outbox}", arrived = "receive:main", bell = "interrupt:{inbox}" }}
"#
    );
    Member { name, text, keys: String::new() }
}

/// Sends each size this often to the other core; each word of each parcel is compared there.
pub(super) fn between_cores(lab: &Lab, trials: u64, findings: &mut Findings) -> Result<(), Failure> {
    for file in ["kernel", "parcels"] {
        lab.guest(&format!("kernel/{file}.elf"))?;
    }
    let members = [member("sender", SENDS | trials, ["back", "there"]), member("receiver", trials, ["there", "back"])];
    let channel = |name: &str, from, to| Channel {
        name: name.to_owned(),
        from,
        to,
        shape: SHAPE,
        doorbell: UNLIMITED.to_owned(),
    };
    let channels = [channel("there", "sender", "receiver"), channel("back", "receiver", "sender")];
    let mut running = cores::system("messages", "mapped", &members, &channels).start_exact(4);
    let end = running.end();
    findings.claim(end == End::AllEnded, format!("two cores: both instances end by themselves: {end:?}"));
    for name in ["sender", "receiver"] {
        let said = running.texts(name);
        let line = said.first().and_then(|line| line.strip_prefix("parcels: "));
        let line = line.ok_or_else(|| Failure::wrong(format!("{name} printed {said:?}")))?;
        let numbers: Vec<u64> =
            line.split(|one: char| !one.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
        let [parcels, bytes, wrong] = numbers[..] else {
            return Err(Failure::wrong(format!("{name} printed {line}")));
        };
        findings.cells.push(must_be(format!("two cores, {name}: parcels"), "parcels", SIZES * trials, parcels));
        findings.cells.push(must_be(format!("two cores, {name}: bytes that arrived"), "bytes", BYTES * trials, bytes));
        findings.cells.push(must_be(
            format!("two cores, {name}: words lost, late, twice or changed"),
            "words",
            0,
            wrong,
        ));
    }
    Ok(())
}
