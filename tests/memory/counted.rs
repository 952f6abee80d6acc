//! The allocator of this target: the system's, which counts for each thread.

#![expect(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

struct Counted;

/// Where a thread begins to count: it may free what another one allocated, such as its own name.
const START: usize = 1 << 40;

thread_local! {
    static NOW: Cell<Count> = const { Cell::new(Count { bytes: START, peak: START, allocations: 0 }) };
}

/// What this thread has allocated: only the difference of two of them says anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count {
    /// Bytes allocated and not freed.
    pub(crate) bytes: usize,
    /// The most of them at a time, since [`count`] was last asked.
    pub(crate) peak: usize,
    /// How often memory was asked for.
    pub(crate) allocations: usize,
}

/// What this thread has allocated; begins another peak.
pub(crate) fn count() -> Count {
    let count = NOW.get();
    NOW.set(Count { peak: count.bytes, ..count });
    count
}

fn add(bytes: usize) {
    let Count { bytes: before, peak, allocations } = NOW.get();
    let bytes = before.wrapping_add(bytes);
    NOW.set(Count { bytes, peak: peak.max(bytes), allocations: allocations.wrapping_add(1) });
}

fn subtract(bytes: usize) {
    let count = NOW.get();
    NOW.set(Count { bytes: count.bytes.wrapping_sub(bytes), ..count });
}

// SAFETY: every call goes to the system's allocator as it came; the counter is a constant-initialised thread local without
// a destructor, which never allocates.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        subtract(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
    // `realloc` and `alloc_zeroed` are made of these two by default: old and new are counted together, as they may exist together.
}

#[test]
fn what_is_allocated_and_freed_is_counted() {
    let before = count();
    let one = vec![0u8; 1_000];
    let two = vec![0u8; 500];
    drop(one);
    let after = count();
    assert_eq!((after.bytes, after.peak), (before.bytes + 500, before.bytes + 1_500));
    assert_eq!(after.allocations, before.allocations + 2);
    drop(two);
    assert_eq!(count().bytes, before.bytes);
}
