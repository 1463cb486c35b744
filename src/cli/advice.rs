//! Commands that a message tells the person to type: they can be pasted as they stand, in any folder.

use std::path::Path;

/// A command of this program on a run.
pub(super) fn command(verb: &str, run_folder: &Path) -> String {
    format!("aforo {verb} {}", typed(run_folder))
}

/// The command that shows the runs of a folder.
pub(super) fn list(runs: &Path) -> String {
    format!("aforo list --runs {}", typed(runs))
}

/// A path as a shell takes it. Whoever comes back over another connection is in another folder.
pub(super) fn typed(path: &Path) -> String {
    let absolute = std::path::absolute(path);
    let path = absolute.as_deref().unwrap_or(path);
    shell_words::quote(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_whatever_the_folder_is_called() {
        assert_eq!(command("attach", Path::new("/r/2026 it's")), r"aforo attach '/r/2026 it'\''s'");
        let here = std::env::current_dir().unwrap();
        let words = shell_words::split(&command("stop", Path::new("-r"))).unwrap();
        assert_eq!(words, ["aforo", "stop", here.join("-r").to_str().unwrap()]);
    }
}
