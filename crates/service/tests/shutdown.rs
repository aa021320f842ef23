//! Signals, against a real process: this test binary starts itself again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use service::reload;
use service::shutdown::{INTERRUPTED_EXIT, signals};

/// Line that the child prints when it may be sent a signal.
const LISTENING: &str = "listening";
const DRAINING: &str = "draining";
const READ_AGAIN: &str = "read again";

/// Not a test by itself: the process that the tests below send signals to.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        reload::register("a file", || {
            println!("{READ_AGAIN}");
            Ok(())
        });
        reload::register("a broken file", || Err("it holds something else".to_owned()));
        let token = signals().unwrap();
        println!("{LISTENING}");
        token.cancelled().await;
        println!("{DRAINING}");
        if std::env::var_os("RECEIPTS_TEST_HANG").is_some() {
            std::future::pending::<()>().await;
        }
    });
}

struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

fn start(hang: bool) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if hang {
        command.env("RECEIPTS_TEST_HANG", "1");
    }
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    Process { child, lines }
}

impl Process {
    fn wait_for(&mut self, word: &str) {
        assert!(
            self.lines.any(|line| line.unwrap().contains(word)),
            "the child never said {word}"
        );
    }

    fn send(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(sent.success());
    }
}

#[test]
fn one_signal_drains() {
    for signal in ["TERM", "INT"] {
        let mut process = start(false);
        process.wait_for(LISTENING);
        process.send(signal);
        process.wait_for(DRAINING);
        assert!(process.child.wait().unwrap().success(), "SIG{signal}");
    }
}

#[test]
fn a_hangup_reads_files_again_and_neither_drains_nor_ends() {
    let mut process = start(true);
    process.wait_for(LISTENING);
    for _ in 0..3 {
        process.send("HUP");
        process.wait_for(READ_AGAIN);
    }
    process.send("TERM");
    process.wait_for(DRAINING);
    // A hangup during a drain doesn't count as the second signal.
    process.send("HUP");
    process.send("INT");
    let status = process.child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(INTERRUPTED_EXIT), None));
}

#[test]
fn a_second_signal_ends_a_hanging_drain() {
    let mut process = start(true);
    process.wait_for(LISTENING);
    process.send("INT");
    process.wait_for(DRAINING);
    process.send("TERM");
    let status = process.child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(INTERRUPTED_EXIT), None));
}
