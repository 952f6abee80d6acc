//! A file system of a few megabytes that only what is started inside it sees. Needs Linux with user namespaces, but no root:
//! where they are missing or forbidden, the test fails and says so.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Mounted as long as this lives; it is gone with this process in any case.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    /// Keeps the mount; ends with its standard input.
    holder: Child,
    folder: tempfile::TempDir,
}

impl SmallDisk {
    pub(crate) fn of_megabytes(size: u32) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mount =
            format!("mount -t tmpfs -o size={size}m none \"$1\" && echo mounted && exec cat >/dev/null");
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount, "sh"])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a small file system needs `unshare` of util-linux");
        let mut line = String::new();
        let told = holder.stdout.take().expect("its words");
        BufReader::new(told).read_line(&mut line).expect("read its words");
        if line.trim() != "mounted" {
            let mut why = String::new();
            let _ = holder.stderr.take().map(|mut words| words.read_to_string(&mut why));
            panic!(
                "a small file system needs user namespaces, as in `unshare --user --map-root-user --mount`; this system \
                 does not give them: {why}"
            );
        }
        Self { holder, folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What a program is started with to see it.
    pub(crate) fn prefix(&self) -> Vec<String> {
        let holder = self.holder.id().to_string();
        ["nsenter", "--preserve-credentials", "--user", "--mount", "--target", &holder, "--"]
            .map(str::to_owned)
            .to_vec()
    }

    /// Fills it until only so many kilobytes are left.
    pub(crate) fn fill_up_to(&self, kilobytes: u32) {
        let fill = "fallocate --length $(($(df --output=avail --block-size=1K \"$1\" | tail -n 1) - $2))KiB \"$1/filler\"";
        self.run(fill, &kilobytes.to_string());
    }

    /// Takes away what filled it.
    pub(crate) fn make_room(&self) {
        self.run("rm \"$1/filler\"", "");
    }

    fn run(&self, script: &str, argument: &str) {
        let mut prefix = self.prefix().into_iter();
        let program = prefix.next().expect("a program");
        let folder: PathBuf = self.folder.path().to_owned();
        let mut command = Command::new(program);
        command.args(prefix).args(["sh", "-c", script, "sh"]).arg(folder).arg(argument);
        let output = command.output().expect("run it inside");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
