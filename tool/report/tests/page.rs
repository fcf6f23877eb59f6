//! What is on the page, and that it is one: well formed, without a script, the same twice.

mod support;

use bulkhead_plan::model::{self, System};
use bulkhead_plan::samples;
use bulkhead_report::experiment::Experiment;
use bulkhead_report::timing::{CoreTiming, ServerNames, TaskTiming, Timing};
use bulkhead_timing::Assumptions;
use support::markup::elements;
use support::{experiments, page, page_of, system, timeline, timing};

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    let page = page();
    let names = elements(&page);
    assert!(names.iter().all(|name| !matches!(name.as_str(), "script" | "img" | "iframe" | "object" | "embed")));
    assert!(names.iter().filter(|name| *name == "svg").count() >= 4);
    for forbidden in ["http:", "https:", "url(", "@import", "src=", "onload", "onclick"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    for (at, _) in page.match_indices("href=\"") {
        let target = &page[at + 6..];
        assert!(target.starts_with('#') || target.starts_with("data:,"), "{}", &target[..20]);
    }
    assert_eq!(page, support::page(), "the same input gives the same page");
}

#[test]
fn the_privileged_code_of_this_system_is_named() {
    // The monitor of the samples is `shared`: 10,000 bytes of text and 5,000 of constants, 3 and 2 pages.
    let lines = bulkhead_contained_monitor::code_lines(bulkhead_abi::Part::Shared).to_string();
    let (thousands, rest) = lines.split_at(lines.len() - 3);
    let page = page();
    let (_, after) = page.split_once("Privileged code of this system: the part <code>shared</code>").expect("the part");
    let sentence = after.split("</p>").next().expect("it ends");
    assert!(sentence.contains(rest) && sentence.contains(thousands), "{sentence}");
    assert!(sentence.contains("20 KiB"), "{sentence}");
}

#[test]
fn every_section_is_reached_from_the_top() {
    let page = page();
    for anchor in ["overview", "evidence", "time", "interrupts", "channels", "memory", "experiments"] {
        assert!(page.contains(&format!("href=\"#{anchor}\"")), "{anchor}");
        assert!(page.contains(&format!("<section id=\"{anchor}\">")), "{anchor}");
    }
}

#[test]
fn bounds_stand_beside_measurements() {
    let page = page();
    let row = page.lines().find(|line| line.contains("linux, vCPU 0: longest dark")).expect("a row");
    // Bound, measured, tightness: 5.25 / 7.04 rounded up.
    for text in ["7.040", "5.250", "0.75", "within the bound"] {
        assert!(row.contains(text), "{text} in {row}");
    }
    assert!(page.contains("measured within bounds"));
    let floor = page.lines().find(|line| line.contains("linux, vCPU 0: least in 100")).expect("a row");
    assert!(floor.contains("at least the bound"), "{floor}");
    assert!(page.contains("instructions, not cycles: each takes 16 ns"));
}

#[test]
fn a_broken_bound_is_seen_at_the_top() {
    let system = system();
    let mut timing = timing(&system);
    timing.cores[0].slots[2].bound.blackout_ns = Some(5_000_000);
    timing.cores[0].servers[0].bound.verdict = Some((false, "late by 12 ms".to_owned()));
    let page = page_of(&system, &timing, Some(&timeline(&system)), &[]);
    let top = page.split("<main>").next().expect("a head");
    // The wait for the first instruction was never seen (linux is always ready), so one bound is broken.
    assert!(top.contains("1 bound exceeded"), "{}", &top[top.len() - 900..]);
    assert!(top.contains("1 budget not certain"));
    assert!(page.contains("bound broken") && page.contains("late by 12 ms"));
}

#[test]
fn without_a_trace_nothing_is_measured() {
    let system = system();
    let page = page_of(&system, &timing(&system), None, &[]);
    elements(&page);
    for absent in ["What ran", "Bounds against", "Measurement", "id=\"experiments\""] {
        assert!(!page.contains(absent), "{absent}");
    }
    assert!(page.contains("2.010"), "bounds need no trace");
}

#[test]
fn systems_of_all_kinds_have_a_page() {
    for system in [samples::demo(), samples::shared(), samples::shared_cores()] {
        let timing = Timing::of_system(&system, &ServerNames::default(), &Assumptions::default());
        let page = page_of(&system, &timing, None, &[]);
        elements(&page);
        assert!(page.contains("image verified"), "{}", system.name);
    }
    let system = samples::shared_cores();
    let page =
        page_of(&system, &Timing::of_system(&system, &ServerNames::default(), &Assumptions::default()), None, &[]);
    for text in [
        "fixed priority, turns of 10 ms at priority 9",
        "time table of 2 windows in 100 ms",
        "round robin with quantum 30 ms; an interrupt recycles what is left of the quantum",
        "pibs",
        "background, priority 40",
        "until its interrupt is ended",
        "There are no servers: guests take turns.",
        "10 in 100 ms",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

/// CH-37: a doorbell without a limit is dangerous and must be seen. MZ-13: the designer must see how long an interrupt that
/// waits for its guest's turn may wait, to judge the device's buffer.
#[test]
fn what_a_designer_must_judge_is_shown() {
    let mut system = samples::shared_cores();
    system.channels[0].doorbell = Some(bulkhead_plan::model::Doorbell { limiter: None });
    let page =
        page_of(&system, &Timing::of_system(&system, &ServerNames::default(), &Assumptions::default()), None, &[]);
    assert!(page.contains("<span class=\"chip warn\">! unlimited</span>"));
    // CH-36: a doorbell that counts with those of other senders has a limit.
    let receiver = system.channels[0].destination.partition;
    bulkhead_plan::samples::limit_together(&mut system, receiver);
    let page =
        page_of(&system, &Timing::of_system(&system, &ServerNames::default(), &Assumptions::default()), None, &[]);
    assert!(!page.contains("! unlimited") && page.contains("10 in 100 ms, all senders together"));
    // `first` does not pre-empt: its console waits for the turn of `second`, 30 ms and what the monitor takes.
    let row = page.lines().find(|line| line.contains(">first<") && line.contains("console")).expect("its console");
    assert!(row.contains(">priority<") && row.contains(">30."), "{row}");
}

/// Of an instance of the real-time kernel the page lists the components and what each is bound to, and only then.
#[test]
fn components_are_listed() {
    assert!(!page().contains(">Components<"));
    let mut system = system();
    let component = model::Component {
        name: "asker".to_owned(),
        program: "a<b.elf".to_owned(),
        is_trusted: true,
        threads: vec!["main".to_owned()],
        stacks: 3,
        on_fault: "return".to_owned(),
        bindings: vec![("sum".to_owned(), "adder.add".to_owned())],
        devices: vec!["rtc".to_owned()],
        dma: None,
        counts: vec![],
    };
    let load = bulkhead_abi::GuestAddress(0x4008_0000);
    let server = model::InstanceServer {
        name: "disk".to_owned(),
        number: 0,
        band: None,
        rule: model::Rule::Pibs,
        time_ns: Some((400_000, 10_000_000)),
        share: Some((1, 25)),
        level: 0,
        has_background: false,
        holder: None,
        bound_ns: Some(2_488_000),
        clients: vec![("control".to_owned(), Some(432_000)), ("vm".to_owned(), None)],
    };
    system.partitions[3].image =
        model::GuestImage::Kernel { bytes: vec![0x5a; 4096], load, components: vec![component], servers: vec![server] };
    let page = page_of(&system, &timing(&system), None, &[]);
    let (_, after) = page.split_once(">Components<").expect("a heading");
    let table = after.split("</table>").next().expect("it ends");
    for part in ["asker", "a&lt;b.elf", "trusted", "main", ">3<", ">rtc<", "sum = adder.add"] {
        assert!(table.contains(part), "{part} is missing in {table}");
    }
    let (_, after) = page.split_once(">Servers of instances<").expect("a heading");
    let table = after.split("</table>").next().expect("it ends");
    for part in ["disk", "pibs", "400 us in 10 ms", "2.488 ms", "control by 432 us, vm by no bound"] {
        assert!(table.contains(part), "{part} is missing in {table}");
    }
}

#[test]
fn no_name_becomes_markup() {
    let mut system = system();
    system.name = "<script>alert(1)</script>".to_owned();
    system.partitions[0].name = "a\"><img src=x>".to_owned();
    system.channels[0].name = "</table>&".to_owned();
    let page = page_of(&system, &timing(&system), Some(&timeline(&system)), &experiments());
    let names = elements(&page);
    assert!(names.iter().all(|name| name != "script" && name != "img"));
    assert!(page.contains("&lt;script&gt;alert(1)") && page.contains("&lt;/table&gt;&amp;"));
}

#[test]
fn servers_have_the_names_of_the_description() {
    let text = "[[partition]]\nname = \"control\"\nservers = [{ name = \"loop\" }, { priority = 3 }]\n[[partition]]\n";
    let cores = CoreTiming::of_system(&system(), &ServerNames::of_description(text));
    let names: Vec<_> = cores[0].servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["control.loop", "gateway", "linux"]);
    assert_eq!(ServerNames::of_description("no = = toml"), ServerNames::default());
}

#[test]
fn results_of_experiments_are_read_leniently_and_never_silently() {
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench");
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    write("b.json", r#"{"name":"b","unit":"ms","published":1.5,"model":1.4,"ours":1.41,"verdict":"met"}"#);
    write("a.json", r#"{"name":"a","verdict":"MISSED","error":"no guest","series":[{"points":[[1,null],[2,3]]}]}"#);
    write("other.txt", "not read");
    let all = Experiment::read_all(&folder).expect("both are results");
    assert_eq!(all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((all[1].cells[0].ours, all[0].series[0].points.as_slice()), (Some(1.41), [(2.0, 3.0)].as_slice()));
    let page = page_of(&system(), &timing(&system()), None, &all);
    assert!(page.contains("It failed: no guest") && page.contains("1 of 2 experiments met"));
    write("bad.json", "{");
    let error = Experiment::read_all(&folder).expect_err("a damaged result");
    assert!(error.contains("bad.json") && error.contains("run its experiment again"), "{error}");
    write("bad.json", "{}");
    let error = Experiment::read_all(&folder).expect_err("no result");
    assert!(error.contains("no result of `./x bench`"), "{error}");
    std::fs::remove_file(folder.join("bad.json")).expect("removed");
}

/// What a guest does once says nothing about what it does for ever.
#[test]
fn start_up_stands_apart_and_who_never_rests_has_no_mean() {
    let page = page();
    let (_, table) = page.split_once("mean response").expect("a table");
    let row = |name: &str| table.lines().find(|line| line.contains(name)).expect("a row").to_owned();
    assert!(page.contains("start-up<small>"), "a column");
    assert!(row("linux, vCPU 0").contains("never idle"), "{}", row("linux, vCPU 0"));
    assert!(!row("control, vCPU 0").contains("never idle"));
}

#[test]
fn a_deadline_of_a_task_stands_beside_what_was_measured() {
    let mut system = system();
    let task = |name: &str, deadline_ns| model::Task {
        name: name.to_owned(),
        cost_ns: 1_000_000,
        period_ns: 10_000_000,
        deadline_ns,
    };
    system.partitions[0].tasks = vec![task("loop", 10_000_000)];
    let with = |system: &System, deadlines: &[u64]| {
        let mut timing = timing(system);
        let tasks = deadlines.iter().enumerate().map(|(task, deadline_ns)| TaskTiming {
            partition: 0,
            task,
            response_ns: None,
            deadline_ns: *deadline_ns,
        });
        timing.cores[0].tasks = tasks.collect();
        page_of(system, &timing, Some(&timeline(system)), &[])
    };
    let find = |page: &str, name: &str| {
        page.lines().find(|line| line.contains(&format!("{name}: deadline of the task"))).map(str::to_owned)
    };
    let row = find(&with(&system, &[10_000_000]), "control.loop").expect("a row");
    assert!(row.contains("10.000") && row.contains("within the bound"), "{row}");
    // Its jobs take 0.8 ms and more.
    let row = find(&with(&system, &[700_000]), "control.loop").expect("a row");
    assert!(row.contains("bound broken"), "{row}");
    // Of two tasks it is not known whose time a long one is.
    system.partitions[0].tasks.push(task("second", 700_000));
    let page = with(&system, &[10_000_000, 700_000]);
    assert!(find(&page, "control.loop").is_some() && find(&page, "control.second").is_none());
}

#[test]
fn the_verdict_comes_first_and_a_trace_that_is_cut_is_a_remark() {
    let system = system();
    let verdict =
        |page: &str| page.split("id=\"verdict\">").nth(1).and_then(|rest| rest.split('<').next()).map(str::to_owned);
    let whole = page_of(&system, &timing(&system), Some(&timeline(&system)), &[]);
    assert_eq!(verdict(&whole).as_deref(), Some("\u{2713} Everything that was checked holds."));
    assert!(!whole.contains("trace incomplete"));
    let mut cut = timeline(&system);
    cut.lost[0] = 5;
    let page = page_of(&system, &timing(&system), Some(&cut), &[]);
    assert_eq!(verdict(&page).as_deref(), Some("! Everything that was judged holds, with 1 remark."));
    assert_eq!(page.matches("! trace incomplete").count(), 2, "at the top and where the trace is described");
    let mut broken = timing(&system);
    broken.cores[0].slots[2].bound.blackout_ns = Some(5_000_000);
    let page = page_of(&system, &broken, Some(&cut), &[]);
    assert!(verdict(&page).is_some_and(|text| text.starts_with("\u{2717} 1 of ")), "{:?}", verdict(&page));
}

#[test]
fn names_are_never_cut_and_a_table_has_one_unit_of_size() {
    let mut system = system();
    let long = "a-name-of-thirty-one-characters";
    system.partitions[0].name = long.to_owned();
    let page = page_of(&system, &timing(&system), Some(&timeline(&system)), &[]);
    let lanes: Vec<&str> =
        page.match_indices("textLength=").map(|(at, _)| page[at..].split("</text>").next().unwrap_or("")).collect();
    assert!(!lanes.is_empty() && lanes.iter().all(|lane| lane.contains(long)), "{lanes:?}");
    assert!(!page.contains("<i>"), "no name stands where it may not fit");
    let legend = page.split("class=\"legend\"").nth(1).expect("a legend");
    assert!(
        legend.split("</p>").next().is_some_and(|legend| legend.contains(long)),
        "the shares have their names below"
    );
    let row = page.lines().find(|line| line.contains("high") && line.contains(long)).expect("a row of the system");
    assert!(!row.contains("MiB") && page.contains("memory<small> MiB</small>"), "{row}");
}

/// Front, back end and what they share are drawn with each device.
#[test]
fn virtio_devices_are_drawn_with_both_ends() {
    let system = samples::virtio();
    let timing = Timing::of_system(&system, &ServerNames::default(), &Assumptions::default());
    let page = page_of(&system, &timing, None, &[]);
    let (_, after) = page.split_once("is one partition\u{2019}s, with stock drivers").expect("the sentence");
    let row = after.lines().find(|line| line.contains("disk of 64 MiB")).expect("a row");
    for text in [">disk<", "office", "linux", "1000 in 10 ms, each way"] {
        assert!(row.contains(text), "{text} in {row}");
    }
    assert!(page.contains("virtio devices, shared by front and back end"), "the legend of memory");
    assert!(page.contains("<dt>virtio devices</dt><dd>3</dd>"), "the overview");
}
