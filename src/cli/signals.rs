//! What signals do to a process that measures.

use tokio::signal::unix::{SignalKind, signal};

use super::print::say_aside;
use crate::run::runner::Stopper;

/// A file-size limit (`ulimit -f`) kills whoever writes past it, unless the signal is caught; then the write fails
/// and is reported as a full disk is.
pub(super) fn outlive_file_size_limit() -> std::io::Result<()> {
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// The first SIGINT or SIGTERM stops the run in order, the second at once. A hang-up changes nothing: the
/// connection may drop, the measurement must not.
pub(super) fn stop_on_signals(stopper: Stopper) -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {
                    tracing::info!("the terminal is gone; the run goes on");
                    continue;
                }
            }
            if stopper.stop() {
                std::process::exit(4);
            }
            // Not waited for: the second signal must be heard.
            tokio::spawn(say_aside(
                "stopping; what is in flight is cancelled (once more: at once)".to_owned(),
            ));
        }
    });
    Ok(())
}
