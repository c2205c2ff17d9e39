import CNetlink
import Glibc
import Testing

@Suite(.timeLimit(.minutes(10))) struct WaitingTests {
    @Test func waitingTellsWhichDescriptorsAreReady() throws {
        let events = [cnl_event_open(), cnl_event_open(), cnl_event_open()]
        defer { for event in events { cnl_event_close(event) } }
        #expect(cnl_wait(events, 3, 0) == 0)
        #expect(cnl_wait(events, 3, 1_000) == 0)
        cnl_event_signal(events[1])
        cnl_event_signal(events[1])
        #expect(cnl_wait(events, 3, -1) == 0b010)
        cnl_event_signal(events[2])
        #expect(cnl_wait(events, 3, -1) == 0b110)
        #expect(cnl_wait(events, 2, -1) == 0b010)
        cnl_event_clear(events[1])
        #expect(cnl_wait(events, 3, .max) == 0b100)
        cnl_event_clear(events[2])
        cnl_event_clear(events[2])
        #expect(cnl_wait(events, 3, 0) == 0)
    }

    @Test func missingDescriptorsAreIgnoredAndWrongOnesAreNot() {
        let event = cnl_event_open()
        defer { cnl_event_close(event) }
        cnl_event_signal(event)
        #expect(cnl_wait([-1, event], 2, -1) == 0b10)
        #expect(cnl_wait([-1], 1, 1_000) == 0)
        #expect(cnl_wait(nil, 0, 1_000) == 0)
        #expect(cnl_wait([event, 1_000_000], 2, 0) == -EBADF)
        #expect(cnl_wait(Array(repeating: event, count: 9), 9, 0) == -EINVAL)
    }

    @Test func theClockStepsTimerRestsUntilThen() throws {
        let steps = cnl_clock_steps_open()
        try #require(steps >= 0)
        #expect(fcntl(steps, F_GETFD) & FD_CLOEXEC != 0 && fcntl(steps, F_GETFL) & O_NONBLOCK != 0)
        cnl_clock_steps_clear(steps)
        cnl_clock_steps_close(steps)
    }
}
