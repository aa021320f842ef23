//! A real SMTP server, Python's aiosmtpd, which keeps what it takes in files and waits where a test
//! tells it to.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use publisher_api::SmtpConfig;
use publisher_api::expiry::Tls;
use tempfile::TempDir;

/// Ends with its standard input, so also with the test.
const SCRIPT: &str = r#"
import asyncio, os, sys, threading
from aiosmtpd.smtp import SMTP

folder = sys.argv[1]
there = lambda name: os.path.exists(os.path.join(folder, name))

async def hold(step):
    open(os.path.join(folder, 'at-' + step), 'w').close()
    while there('hold-' + step):
        await asyncio.sleep(0.01)

class Handler:
    taken = 0
    async def handle_RCPT(self, server, session, envelope, address, options):
        await hold('rcpt')
        if address.startswith('nobody@'):
            return '550 no such user'
        if there('busy'):
            return '451 later'
        envelope.rcpt_tos.append(address)
        return '250 OK'
    async def handle_DATA(self, server, session, envelope):
        Handler.taken += 1
        name = os.path.join(folder, f'{Handler.taken:03}')
        with open(name + '.part', 'wb') as file:
            file.write(envelope.rcpt_tos[0].encode() + b'\n' + envelope.content)
        os.rename(name + '.part', name + '.eml')
        await hold('data')
        return '250 taken'

async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(Handler(), hostname='mail.test'), '127.0.0.1', 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

def watch():
    sys.stdin.read()
    os._exit(0)

threading.Thread(target=watch, daemon=True).start()
asyncio.run(main())
"#;

pub(crate) struct MailServer {
    child: Child,
    port: u16,
    folder: TempDir,
}

impl MailServer {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(test_engines::python().unwrap())
            .args(["-c", SCRIPT])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            port: line
                .trim()
                .parse()
                .unwrap_or_else(|_| panic!("the mail server doesn't start: {line}")),
            child,
            folder,
        }
    }

    pub(crate) fn config(&self) -> SmtpConfig {
        SmtpConfig {
            host: Some("127.0.0.1".to_owned()),
            port: self.port,
            tls: Tls::None,
            from: Some("Receipts <receipts@service.example>".to_owned()),
            ..SmtpConfig::default()
        }
    }

    /// The mails it has taken, in order; the first line is the recipient.
    pub(crate) fn taken(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<PathBuf> = names.map(|entry| entry.unwrap().path()).collect();
        names.retain(|name| name.extension().is_some_and(|extension| extension == "eml"));
        names.sort();
        names
            .iter()
            .map(|name| std::fs::read_to_string(name).unwrap())
            .collect()
    }

    /// From now on it waits at `step` (`rcpt`, `data`), or says that it's busy.
    pub(crate) fn set(&self, name: &str) {
        std::fs::write(self.folder.path().join(name), "").unwrap();
    }

    pub(crate) fn unset(&self, name: &str) {
        std::fs::remove_file(self.folder.path().join(name)).unwrap();
    }

    /// Waits until somebody is at `step`.
    pub(crate) async fn reached(&self, step: &str) {
        let mark = self.folder.path().join(format!("at-{step}"));
        for _ in 0..6_000 {
            if mark.exists() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("nobody came to {step}");
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
