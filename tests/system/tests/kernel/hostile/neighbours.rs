//! Instances that attack another one by a channel between them, and those beside: their descriptions.

use bulkhead_system_tests::kernel::cores::Member;

/// An instance of one component that does nothing but attack. `more` are lines of its instance, and of the component, behind those that all have.
pub(super) fn attacker(program: &str, argument: u64, [of_instance, of_component]: [&str; 2]) -> Member {
    let text = format!(
        r#"version = 1
server = [{{ name = "main", quantum = "100 s" }}, {{ name = "wire" }}]
{of_instance}
[[component]]
name = "{program}"
program = "component:{program}.elf"
threads = [{{ name = "main", server = "main", argument = {argument} }}]
{of_component}"#
    );
    Member { name: "attacker", text, keys: String::new() }
}

/// One that takes nothing of what nobody sends, and sends nothing.
pub(super) fn bystander() -> Member {
    let text = r#"version = 1
server = [{ name = "main" }]

[[component]]
name = "adder"
program = "component:adder.elf"
callers = { stacks = 1, bytes = "4 KiB" }
"#;
    Member { name: "bystander", text: text.to_owned(), keys: String::new() }
}
