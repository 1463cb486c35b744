//! Start-up: hooks, arguments, exit code.
fn main() {}
