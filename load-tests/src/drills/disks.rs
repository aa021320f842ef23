//! Full disks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use crate::fleet::Shape;
use crate::http::{client, get};
use crate::run::Run;
use crate::stack::Stack;

use super::logs::print_logs;
use super::{Figures, Setting, Stage};

/// A file system in memory, unmounted when dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(mebibytes: u32) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let size = format!("size={mebibytes}m");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(directory.path())
            .status()?;
        ensure!(status.success(), "mounting a tmpfs needs root");
        Ok(Self(directory))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Whether this user may mount file systems; without, these drills can't run.
#[must_use]
pub fn may_mount() -> bool {
    Tmpfs::mount(1).is_ok()
}

/// Keeps a file system full, to the last block, and again what is given back meanwhile.
struct Filler {
    file: PathBuf,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<()>>,
}

impl Filler {
    fn start(folder: &Path) -> Self {
        let (file, stop) = (folder.join("filler"), CancellationToken::new());
        let task = tokio::spawn(keep_full(file.clone(), stop.clone()));
        Self { file, stop, task }
    }

    /// Gives the room back.
    async fn end(self) -> Result<()> {
        self.stop.cancel();
        self.task.await??;
        Ok(std::fs::remove_file(self.file)?)
    }
}

async fn keep_full(file: PathBuf, stop: CancellationToken) -> Result<()> {
    while !stop.is_cancelled() {
        let mut fill = tokio::process::Command::new("dd");
        fill.args(["if=/dev/zero", "bs=16k", "oflag=append", "conv=notrunc"])
            .arg(format!("of={}", file.display()));
        ensure!(!fill.output().await?.status.success(), "the disk should be full");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Under `receipts up`: what can't be stored is refused with 503, and when there is room again
/// everything acknowledged is there, once.
pub(super) async fn embedded(setting: Setting) -> Result<Figures> {
    let disk = Tmpfs::mount(1024)?;
    // Small steps, and no reserve: the disk itself is to say no.
    let environment = [
        ("RECEIPTS_VERDICTS_SEGMENT_BYTES", "83886080"),
        ("RECEIPTS_VERDICTS_MIN_FREE_BYTES", "0"),
        ("RECEIPTS_LOG_SEGMENT_BYTES", "16777216"),
        ("RECEIPTS_LOG_MIN_FREE_BYTES", "0"),
        ("RECEIPTS_WAREHOUSE_MIN_FREE_BYTES", "0"),
    ];
    let receipts = setting.programs.join("receipts");
    let mut stack = Stack::new(&receipts, &disk.path().join("data"), &environment)?;
    stack.start()?;
    stack.ready().await?;
    let key = stack.create_key("full.example").await?;
    // Single receipts, which the log doesn't compress, fill what it has set aside.
    let more = [
        "--duration",
        "3600",
        "--batch",
        "1",
        "--rate",
        "1500",
        "--concurrency",
        "32",
    ];
    let mut arguments = stack.load(&key, "full.example", &more);
    arguments.tries_max = u32::MAX;
    let run = Run::start(arguments).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let filler = Filler::start(disk.path());
    let refused = log_refuses(&stack.gateway()).await;
    filler.end().await?;
    ensure!(
        refused,
        "a full disk must show as a degraded log in /readyz of the gateway; the end of the log:\n{}",
        stack.log_tail()
    );
    tokio::time::sleep(Duration::from_secs(2)).await;
    run.stop();
    repair(&receipts, stack.data()).await?;
    let figures = settle_alone(run).await.with_context(|| stack.log_tail())?;
    stack.stop().await?;
    Ok(figures)
}

/// Under Kafka: it ends when it can't write, and is started again when there is room.
pub(super) async fn kafka(setting: Setting) -> Result<Figures> {
    let disk = Tmpfs::mount(400)?;
    let folder = disk.path().join("kafka");
    let mut shape = Shape::for_drills(&setting.programs);
    (shape.gateways, shape.verifiers, shape.writers) = (1, 1, 1);
    shape.kafka = [
        ("log.dirs", &*folder.display().to_string()),
        ("log.segment.bytes", "16777216"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .to_vec();
    let mut stage = Stage::set(&setting, &shape).await?;
    let drilled = fill_kafka(&mut stage, disk.path()).await;
    if drilled.is_err() {
        print_logs(&mut stage.fleet);
    }
    let figures = stage.take_figures();
    // Before the file system below it.
    drop(stage);
    drilled.map(|()| figures)
}

async fn fill_kafka(stage: &mut Stage, disk: &Path) -> Result<()> {
    let load = stage.load_with(&["--batch", "50", "--rate", "1000"], &[]).await?;
    let filler = Filler::start(disk);
    let refused = log_refuses(&stage.fleet.gateways[0].admin).await;
    filler.end().await?;
    ensure!(refused, "a gateway without a log to write to must say so in /readyz");
    // It may have ended by itself, or live on without the folder that it couldn't write to.
    block_in_place(|| stage.fleet.kafka.kill())?;
    block_in_place(|| stage.fleet.kafka.restart())?;
    stage.until_acknowledged(&load.run).await?;
    stage.settle(load).await?;
    Ok(())
}

/// A merge that meets a full disk may leave a part of zero bytes in ClickHouse: what a person does
/// then, and what changes nothing otherwise.
async fn repair(receipts: &Path, data: &Path) -> Result<()> {
    let mut repair = tokio::process::Command::new(receipts);
    let output = repair.args(["repair", "--json", "--data"]).arg(data).output().await?;
    ensure!(
        output.status.success(),
        "receipts repair: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

async fn settle_alone(run: Run) -> Result<Figures> {
    let report = run.finish().await?;
    if !report.passed() {
        bail!("{}", report.faults().join("\n"));
    }
    Ok(vec![
        ("receipts", report.receipts.to_string()),
        ("503", report.unavailable.to_string()),
    ])
}

/// Until the log itself refuses: it may continue for a while in space that it has set aside.
async fn log_refuses(base: &str) -> bool {
    let http = client(1);
    for _ in 0..600 {
        if let Ok((_, body)) = get(&http, &format!("{base}/readyz")).await
            && let Ok(readiness) = serde_json::from_slice::<serde_json::Value>(&body)
            && readiness["components"]["log"]["status"] == "degraded"
        {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    false
}
