//! How the process is told to end: by a call, or by a signal.

use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io, thread};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Tells every worker of a process to finish what runs, commit, and leave. Clones are one.
#[derive(Clone, Default)]
pub struct Shutdown(Arc<Mutex<State>>);

enum State {
    Working(Vec<Box<dyn FnOnce() + Send>>),
    Draining,
}

impl Default for State {
    fn default() -> Self {
        Self::Working(Vec::new())
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shutdown")
    }
}

impl Shutdown {
    /// One that only [`Shutdown::drain`] sets off.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that SIGTERM or SIGINT sets off, too. The second signal ends the process at once, with exit code 1: what was
    /// not committed is done again by whoever comes next.
    ///
    /// # Errors
    ///
    /// The system's, where signals cannot be received.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::new();
        let drain = shutdown.clone();
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let mut signals = signals.forever();
            if signals.next().is_some() {
                drain.drain();
            }
            if signals.next().is_some() {
                std::process::exit(1);
            }
        })?;
        Ok(shutdown)
    }

    /// Sets it off. Calling it again changes nothing.
    pub fn drain(&self) {
        let before = std::mem::replace(&mut *self.lock(), State::Draining);
        match before {
            State::Working(listeners) => listeners.into_iter().for_each(|listener| listener()),
            State::Draining => {}
        }
    }

    /// Has `listener` called when it is set off, at once if it was.
    pub(super) fn on_drain(&self, listener: impl FnOnce() + Send + 'static) {
        match &mut *self.lock() {
            State::Working(listeners) => {
                listeners.push(Box::new(listener));
                return;
            }
            State::Draining => {}
        }
        listener();
    }

    /// Whoever panicked with the lock held changed nothing by halves.
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_listener_is_told_once_whenever_it_came() {
        let (shutdown, told) = (Shutdown::new(), Arc::new(AtomicUsize::new(0)));
        let listen = || {
            let told = Arc::clone(&told);
            shutdown.on_drain(move || {
                told.fetch_add(1, Ordering::SeqCst);
            });
        };
        listen();
        assert_eq!(told.load(Ordering::SeqCst), 0);
        shutdown.drain();
        shutdown.drain();
        listen();
        assert_eq!(told.load(Ordering::SeqCst), 2);
    }
}
