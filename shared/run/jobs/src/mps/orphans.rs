use super::control::find_control;
use super::shared;
use super::stale::{self, default_root, lock};

/// Stops the daemons that killed owners left in the default root, for a guard.
pub fn clean_orphans() {
    let root = default_root();
    let Some(program) = find_control() else {
        return;
    };
    if !root.is_dir() {
        return;
    }
    // Takes the same lock as `RunDir::create`. If another process holds it, nothing is done, because that process
    // cleans up itself.
    if let Ok(_gate) = lock(&root.join("lock")) {
        stale::clean(&root, &program).ok();
    }
    // If stopping fails now, the next client to leave tries again.
    shared::clean(&root, &program).ok();
}
