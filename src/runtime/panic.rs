//! A panic is a defect, of redrive or of a handler: the process ends, it never limps on.

/// Ends the process when it is dropped by a panic. Put where the panic must not unwind further: clients that are dropped
/// half way wait for threads that will not answer.
#[derive(Debug)]
pub(super) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("a panic ends the process; nothing was committed that is not whole");
            std::process::abort();
        }
    }
}
