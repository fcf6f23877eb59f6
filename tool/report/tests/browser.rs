//! The page in a browser: Debian's Chromium without a screen.

mod support;

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs the browser on a page; what it complains about is in its error stream.
fn browse(name: &str, page: &str, options: &[&str]) -> (Output, String) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let path = folder.join("report.html");
    std::fs::write(&path, page).expect("the page is written");
    let log = folder.join("net.json");
    // A browser that hangs must not hang the tests; it takes a second, and a busy host more.
    let output = Command::new("timeout")
        .args(["600", "chromium-headless-shell"])
        // Tests run as root, where the sandbox cannot; the page is our own and may load nothing.
        .args(["--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND"])
        .arg(format!("--log-net-log={}", log.display()))
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(options)
        .arg(format!("file://{}", path.display()))
        .current_dir(&folder)
        .output()
        .expect("the browser runs; ./x test installs it (Debian package chromium-headless-shell)");
    (output, std::fs::read_to_string(log).expect("the browser keeps a log of requests"))
}

#[test]
fn the_page_loads_without_a_complaint_and_asks_for_nothing() {
    let texts: [&[&str]; 2] = [
        &["Bulkhead report", "control", "gateway", "Bounds against measurements", "mips-rtt"],
        &["Bulkhead report", "Who had the cores", "kicked from", "monitor with 3 partitions"],
    ];
    for ((name, page), texts) in pages().into_iter().zip(texts) {
        let (output, log) = browse(&format!("dom-{name}"), &page, &["--dump-dom"]);
        assert!(output.status.success(), "{name}");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(!complaints.contains("CONSOLE"), "{name}: {complaints}");
        let shown = String::from_utf8(output.stdout).expect("text");
        for text in texts {
            assert!(shown.contains(text), "{name}: {text}");
        }
        assert_eq!(foreign_requests(&log), Vec::<String>::new(), "{name}");
    }
    let page = support::page();
    // The same look finds what a page asks for, when it may ask.
    let asking = page.replace("Content-Security-Policy", "no-policy");
    let asking = asking.replace("<main>", "<main><img src=\"http://example.invalid/x.png\" alt=\"\">");
    let (_, log) = browse("asking", &asking, &["--dump-dom"]);
    assert_eq!(foreign_requests(&log), ["http://example.invalid/x.png"]);
}

/// Returns what was asked for besides files of this machine.
fn foreign_requests(log: &str) -> Vec<String> {
    let urls = log.match_indices("\"url\":\"").filter_map(|(at, key)| log[at + key.len()..].split('"').next());
    let mut urls: Vec<_> =
        urls.filter(|url| !url.starts_with("file:") && !url.starts_with("data:")).map(str::to_owned).collect();
    urls.sort();
    urls.dedup();
    urls
}

/// Pages with everything that there can be on one: of partitions, and of partitions below a payload.
fn pages() -> [(&'static str, String); 2] {
    let timeline = support::hybrid::timeline();
    let below = support::hybrid::page_of(&support::hybrid::system(100_000_000), Some(&timeline), None);
    [("partitions", support::page()), ("below", below)]
}

/// On a telephone the page is as wide as the screen: tables and figures scroll by themselves.
#[test]
fn nothing_is_wider_than_a_telephone() {
    // The page has no script and may run none; this one measures it.
    let measure = "<script>document.title = 'wide ' + document.documentElement.scrollWidth</script></html>";
    for (name, page) in pages() {
        let page = page.replace("Content-Security-Policy", "no-policy").replace("</html>", measure);
        let name = format!("telephone-{name}");
        let (output, _) = browse(&name, &page, &["--dump-dom", "--hide-scrollbars", "--window-size=390,844"]);
        let shown = String::from_utf8(output.stdout).expect("text");
        assert!(shown.contains("<title>wide 390</title>"), "{name}: {}", &shown[..shown.len().min(600)]);
    }
}

/// Who opens the page on a telephone reads the verdict without scrolling, also that of a bad system.
#[test]
fn the_verdict_is_on_the_first_screen_of_a_telephone() {
    let measure = "<script>const at = document.getElementById('verdict').getBoundingClientRect(); \
        document.title = at.top > 0 && at.bottom < innerHeight / 2 && at.left >= 0 && at.right <= innerWidth ? 'seen' : 'unseen'</script></html>";
    let page = support::page().replace("Content-Security-Policy", "no-policy").replace("</html>", measure);
    let (output, _) = browse("verdict", &page, &["--dump-dom", "--hide-scrollbars", "--window-size=390,844"]);
    let shown = String::from_utf8(output.stdout).expect("text");
    assert!(shown.contains("<title>seen</title>"), "{}", &shown[..shown.len().min(600)]);
}

#[test]
fn the_page_prints() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("printed.pdf");
    let option = format!("--print-to-pdf={}", path.display());
    let (output, _) = browse("print", &support::page(), &[&option, "--no-pdf-header-footer"]);
    assert!(output.status.success());
    let printed = std::fs::read(path).expect("a document");
    assert!(printed.starts_with(b"%PDF-"));
    let pages = printed.windows(11).filter(|window| window == b"/Type /Page").count();
    assert!((4..=9).contains(&pages), "{pages} pages and their list");
}
