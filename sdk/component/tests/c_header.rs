//! The C header of components says what the Rust crates say: numbers of calls, operations, codes, kinds and rights, sizes and offsets, and the sections by
//! which the host binds functions (CH-4, CH-5).
//!
//! The host's C compiler judges the numbers, the cross compiler makes components; neither knows Rust.

use bulkhead_instance::{Interface, examine};
use bulkhead_kernel_abi::accounts::FaultKind;
use bulkhead_kernel_abi::call::{Call, Flag, ROWS};
use bulkhead_kernel_abi::capability::right;
use bulkhead_kernel_abi::image::{self, ComponentHead, Function, NAME_BYTES};
use bulkhead_kernel_abi::{ALL_TICKS, Code, KERNEL_ABI_VERSION, Kind, PRINT_BYTES, PROCESS_QUOTA_SLOT, PROCESS_SLOTS};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Lets the host's C compiler (`$CC`, else `cc`) judge a text; returns its messages when it refuses.
fn judge(name: &str, text: &str) -> Result<(), String> {
    let source = temporary(name);
    fs::write(&source, text).expect("cargo's temporary directory is writable");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(here("include"))
        .arg(&source)
        .output()
        .unwrap_or_else(|error| panic!("cannot start the host's C compiler `{compiler}`: {error}"));
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Builds a component in C.
fn build(output: &str, source: &Path) -> Output {
    build_with(&[], output, source)
}

fn build_with(options: &[&str], output: &str, source: &Path) -> Output {
    let mut script = Command::new(here("build.sh"));
    script.args(options).arg(temporary(output)).arg(source).output().expect("the script starts")
}

/// A name of Rust as C writes constants: `BadCall` as `BAD_CALL`, `remote send` as `REMOTE_SEND`.
fn constant(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            text.push('_');
        }
        text.push(if letter == ' ' { '_' } else { letter.to_ascii_uppercase() });
    }
    text
}

/// One `_Static_assert` per fact.
struct Facts(String);

impl Facts {
    fn equal(&mut self, c: &str, rust: u64) {
        writeln!(self.0, "_Static_assert((uint64_t)({c}) == UINT64_C({rust:#x}), \"{c} is {rust:#x} in Rust\");")
            .expect("a string grows");
    }

    fn named(&mut self, prefix: &str, name: &str, rust: u64) {
        self.equal(&format!("BULKHEAD_{prefix}{}", constant(name)), rust);
    }
}

const RIGHTS: [(&str, u8); 11] = [
    ("USE", right::USE),
    ("STOP", right::STOP),
    ("WRITE", right::WRITE),
    ("PRIORITY", right::PRIORITY),
    ("BIND", right::BIND),
    ("EXECUTE", right::EXECUTE),
    ("LIMIT", right::LIMIT),
    ("DELEGATE", right::DELEGATE),
    ("EXPECT", right::EXPECT),
    ("READ", right::READ),
    ("REVOKE", right::REVOKE),
];

fn facts() -> String {
    let mut facts = Facts("#include \"bulkhead_process.h\"\n".into());
    facts.equal("BULKHEAD_KERNEL_ABI_VERSION", KERNEL_ABI_VERSION.into());
    facts.equal("BULKHEAD_PROCESS_SLOTS", PROCESS_SLOTS as u64);
    facts.equal("BULKHEAD_PROCESS_QUOTA_SLOT", PROCESS_QUOTA_SLOT);
    facts.equal("BULKHEAD_COMPONENT_MAGIC", image::COMPONENT_MAGIC);
    facts.equal("BULKHEAD_PRINT_BYTES", PRINT_BYTES as u64);
    facts.equal("BULKHEAD_NAME_BYTES", NAME_BYTES as u64);
    facts.equal("BULKHEAD_ALL_TICKS", ALL_TICKS);
    Call::ALL.iter().for_each(|call| facts.named("CALL_", call.name(), call.number().into()));
    for row in ROWS {
        if let Some((number, name, _)) = row.operation {
            facts.named(&format!("{}_", constant(row.call.name())), name, number);
        }
    }
    Code::ALL.iter().for_each(|code| facts.named("", code.name(), code.number()));
    Flag::ALL.iter().for_each(|flag| facts.named("FLAG_", flag.name(), flag.number()));
    Kind::ALL.iter().for_each(|kind| facts.named("KIND_", kind.name(), kind.number().into()));
    FaultKind::ALL.iter().for_each(|kind| facts.named("FAULT_", kind.name(), kind.number().into()));
    RIGHTS.iter().for_each(|(name, bit)| facts.equal(&format!("BULKHEAD_RIGHT_{name}"), (*bit).into()));
    (0..9).for_each(|count| facts.equal(&format!("BULKHEAD_SIGNATURE_{count}"), signature(count)));
    let head = offset_of!(ComponentHead, abi_version) as u64;
    facts.equal("sizeof(struct bulkhead_component_head)", size_of::<ComponentHead>() as u64);
    facts.equal("offsetof(struct bulkhead_component_head, abi_version)", head);
    facts.equal("sizeof(struct bulkhead_function)", size_of::<Function>() as u64);
    facts.equal("offsetof(struct bulkhead_function, signature)", offset_of!(Function, signature) as u64);
    facts.equal("offsetof(struct bulkhead_function, address)", offset_of!(Function, address) as u64);
    facts.0
}

/// Of a function that takes this number of words.
fn signature(parameters: usize) -> u64 {
    image::signature(&format!("({}) -> u64", vec!["u64"; parameters].join(", ")))
}

#[test]
fn numbers_and_layouts_agree() {
    if let Err(messages) = judge("component-facts.c", &facts()) {
        panic!("bulkhead_component.h differs from the Rust crates:\n{messages}");
    }
}

#[test]
fn a_difference_would_be_found() {
    let wrong = facts().replace("(BULKHEAD_BAD_CALL) == UINT64_C(0xf)", "(BULKHEAD_BAD_CALL) == UINT64_C(0xe)");
    let messages = judge("component-wrong.c", &wrong).expect_err("a wrong code is refused");
    assert!(messages.contains("BULKHEAD_BAD_CALL is 0xf in Rust"), "{messages}");
}

/// CH-4, CH-5: a component in C has the head, the exports and the imports that the writer of an instance looks for, of every number of parameters.
#[test]
fn functions_of_c_are_those_of_the_host() {
    let built = build("arities.elf", &here("tests/arities.c"));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let file = fs::read(temporary("arities.elf")).expect("it is there");
    let Interface { exports, imports, .. } = examine(&file).unwrap_or_else(|error| panic!("{error}"));
    for (prefix, functions) in [("out", &exports), ("in", &imports)] {
        // Numbers of entries are the compiler's; the host binds by name.
        let said: BTreeSet<(&str, u64)> = functions.iter().map(|one| (one.name.as_str(), one.signature)).collect();
        let names: Vec<String> = (0..9).map(|number| format!("{prefix}{number}")).collect();
        let expected: BTreeSet<(&str, u64)> = names.iter().map(String::as_str).zip((0..9).map(signature)).collect();
        assert_eq!(said, expected);
    }
    let places: BTreeSet<u64> = exports.iter().chain(&imports).map(|function| function.address).collect();
    assert_eq!(places.len(), 18, "each has an entry or a slot of its own");
}

/// A name that does not fit is a message of the compiler, and not a function that nobody can bind.
#[test]
fn a_name_that_is_too_long_is_refused() {
    let source = temporary("long.c");
    let long = "a".repeat(NAME_BYTES);
    let text = format!(
        "#include \"bulkhead_component.h\"\nBULKHEAD_ENTRY(run)\nBULKHEAD_IMPORT({long})\n\
         static void run(uint64_t argument) {{ (void)argument; }}\n"
    );
    fs::write(&source, text).expect("cargo's temporary directory is writable");
    let built = build("long.elf", &source);
    let messages = String::from_utf8_lossy(&built.stderr);
    assert!(!built.status.success() && messages.contains("the name of the function is too long"), "{messages}");
}

/// Every call about processes and memory compiles, and a slot that holds no function is one that the host finds.
#[test]
fn processes_of_c_are_built() {
    let built = build("family.elf", &here("../../components/in-c/family.c"));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let file = fs::read(temporary("family.elf")).expect("it is there");
    let Interface { exports, imports, .. } = examine(&file).unwrap_or_else(|error| panic!("{error}"));
    let said: BTreeSet<(&str, u64)> = imports.iter().map(|one| (one.name.as_str(), one.signature)).collect();
    let expected: BTreeSet<(&str, u64)> =
        ["told", "quota", "jobs", "program", "room"].into_iter().map(|name| (name, signature(0))).collect();
    assert_eq!((said, exports.len()), (expected, 0));
}

/// Floating point is what the builder asks for: without it the compiler refuses a `double`, with it what a call may lose is saved before it by who needs it.
#[test]
fn floating_point_of_c_is_an_option() {
    let source = here("../../components/in-c/floating-point/c-loop.c");
    let refused = build("c-loop.elf", &source);
    let messages = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && messages.contains("-mgeneral-regs-only"), "{messages}");
    let built = build_with(&["--floating-point"], "c-loop.elf", &source);
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    examine(&fs::read(temporary("c-loop.elf")).expect("it is there")).unwrap_or_else(|error| panic!("{error}"));
}
