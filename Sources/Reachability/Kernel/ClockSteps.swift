internal import CNetlink

/// Becomes readable when the time of day is set: the end of a suspension does that, too (timerfd_create(2)).
///
/// Owned by one thread.
struct ClockSteps: ~Copyable {
    /// The descriptor, or a negative number if there is none; then a suspension is noticed with the next batch.
    let descriptor = cnl_clock_steps_open()

    deinit {
        if descriptor >= 0 { cnl_clock_steps_close(descriptor) }
    }

    borrowing func clear() {
        if descriptor >= 0 { cnl_clock_steps_clear(descriptor) }
    }
}
