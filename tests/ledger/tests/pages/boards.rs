//! What drafts of real device trees came to, as it was recorded last.

use super::generated;
use bulkhead_ledger::repository;
use bulkhead_ledger::table::{head, row};
use serde_json::Value;

/// Where `./x bench boards --record` writes it.
const RECORD: &str = "docs/boards.json";

/// The chapter with the counts, and the boards that have nothing against them.
pub(super) fn page() -> String {
    let mut text = String::from("# Boards that could run\n\n") + &generated(&format!("`{RECORD}`"));
    let known = std::fs::read_to_string(repository().join(RECORD)).expect("the record can be read");
    let known: Value = serde_json::from_str(&known).unwrap_or_else(|error| panic!("{RECORD}: {error}"));
    let word = |key: &str| known[key].as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_u64().unwrap_or_default().to_string();
    text += &format!(
        "`./x bench boards` makes a [draft](../porting.md) of a board file from each of the {} device trees in Debian's kernel package for\n\
         arm64 ({}; recorded on {}), and writes in the place of each TODO what the monitor wants: entered at EL2, four\n\
         list registers, two security states, RAM around what is reserved where a tree leaves it to a boot loader. Then\n\
         `board check` says what is in the way. {} trees were refused, {} of these files are not well-formed, and none of the boards was\n\
         tried: *could run* says that nothing in its tree is against it.\n\n",
        number(&known["trees"]),
        word("package"),
        word("date"),
        number(&known["refused"]),
        number(&known["malformed"]),
    );
    text += &format!(
        "- {} boards could run, {} of them with console input: a PL011 is the console of the tree.\n- {} have a GICv3 and PSCI by SMC.\n\n",
        number(&known["could_run"]),
        number(&known["console_input"]),
        number(&known["gicv3_and_psci"])
    );
    text += "## What the others lack\n\n";
    text += "A board is counted in each row that it lacks; the last column counts those that lack nothing else. Of a GICv2 nothing further is asked.\n\n";
    text += &head(&["what", "boards", "nothing else"]);
    for one in known["lacking"].as_array().expect("a list") {
        text +=
            &row(&[one["what"].as_str().unwrap_or_default(), &number(&one["boards"]), &number(&one["nothing_else"])]);
    }
    text += "\n*INTIDs*: a node names an interrupt that the monitor cannot hold. *Memory*: more banks or reserved regions than an image\n\
             lists. *Interrupts of the timer*: private interrupts that are not those of the Base System Architecture.\n\n";
    text += "## By vendor\n\n";
    text += &head(&["vendor", "trees", "could run", "which"]);
    for one in known["vendors"].as_array().expect("a list") {
        let names: Vec<String> = one["could_run"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|name| format!("`{}`", name.as_str().unwrap_or_default()))
            .collect();
        let vendor = one["vendor"].as_str().unwrap_or_default();
        text += &row(&[vendor, &number(&one["trees"]), &names.len().to_string(), &names.join(", ")]);
    }
    text
}
