//! Logs of the processes of a drill.

use anstream::eprintln;

use crate::fleet::Fleet;

/// Prints the last lines of every process.
pub(super) fn print_logs(fleet: &mut Fleet) {
    for (name, tail) in fleet.logs() {
        eprintln!("--- the end of {name}'s log\n{tail}");
    }
}
