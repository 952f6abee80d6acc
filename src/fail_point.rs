//! Named points in a worker's work at which a test has the process die, stop, panic or wait.
//!
//! Owns the closed list of the points and what is ordered at them. Part of builds with the feature `fail-points` only,
//! which the tests switch on: without it `fail_point!` expands to nothing, and nothing reads the variable.
//!
//! The variable `REDRIVE_FAIL_POINT` holds orders, separated by commas, each `POINT[:N]=ACTION`: at the `N`-th passing of
//! the point by this process, the first where no `N` is given, do `ACTION`:
//!
//! | action | what happens |
//! |---|---|
//! | `kill` | SIGKILL, as if by `kill -9`: nothing is unwound, flushed or closed |
//! | `stop` | SIGSTOP: no thread is scheduled until SIGCONT comes |
//! | `panic` | the thread panics |
//! | `park(FILE)` | makes `FILE`, and this one thread waits until it is gone |
//!
//! Own code rather than the crate `fail` (0.5.1, of 2022): its names are texts in one global map, so that a point that is
//! misspelled is passed for ever and nobody is told, and it can neither kill nor stop a process nor say that a point was
//! reached.

/// Passes a point, by the name of its [`FailPoint`]; nothing in a build without the feature `fail-points`.
macro_rules! fail_point {
    ($point:ident) => {
        #[cfg(feature = "fail-points")]
        $crate::fail_point::pass($crate::fail_point::FailPoint::$point);
    };
}

pub(crate) use fail_point;

#[cfg(feature = "fail-points")]
mod order;
#[cfg(feature = "fail-points")]
mod point;

#[cfg(feature = "fail-points")]
pub use order::{BadOrder, VARIABLE};
#[cfg(feature = "fail-points")]
pub(crate) use order::{arm, pass};
#[cfg(feature = "fail-points")]
pub use point::FailPoint;
