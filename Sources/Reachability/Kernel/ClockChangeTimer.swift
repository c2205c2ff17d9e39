internal import CNetlink

/// A timer that becomes readable when the time of day is set, by hand or at the end of a suspension (timerfd_create(2)).
///
/// Owned by one thread.
struct ClockChangeTimer: ~Copyable {
    /// The descriptor, or a negative number if there is none; then a suspension is noticed with the next batch.
    let descriptor = cnl_clock_change_timer_open()

    deinit {
        if descriptor >= 0 { cnl_clock_change_timer_close(descriptor) }
    }

    /// Makes the descriptor unreadable until the next change.
    borrowing func clear() {
        if descriptor >= 0 { cnl_clock_change_timer_clear(descriptor) }
    }
}
