import CNetlink
import CSandbox
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

    @Test func aSetTellsWhichOfItsDescriptorsAreReady() throws {
        let set = cnl_wait_set_open()
        let events = [cnl_event_open(), cnl_event_open()]
        try #require(set >= 0 && fcntl(set, F_GETFD) & FD_CLOEXEC != 0)
        defer { for descriptor in [set, events[0]] { cnl_event_close(descriptor) } }
        #expect(cnl_wait_set_add(set, events[0], 0) == 0 && cnl_wait_set_add(set, events[1], 7) == 0)
        #expect(cnl_wait_set(set, 0) == 0)
        #expect(cnl_wait_set(set, 1_000) == 0)
        cnl_event_signal(events[1])
        #expect(cnl_wait_set(set, -1) == 0b1000_0000)
        cnl_event_signal(events[0])
        #expect(cnl_wait_set(set, .max) == 0b1000_0001)
        #expect(cnl_wait_set(set, 0) == 0b1000_0001, "what was not read is told again")
        cnl_event_clear(events[0])
        cnl_event_close(events[1])
        #expect(cnl_wait_set(set, 1_000) == 0, "what was closed has left")
    }

    /// Kernels before 5.11 wait in milliseconds.
    @Test func aSetWaitsWithoutThePreciseCallToo() {
        /// What was returned for a descriptor that was added, by an idle set, and by one with something to read.
        final class Results {
            var results: [Int32] = []
        }
        let results = Results()
        let refusal = csandbox_run(
            CSANDBOX_NO_PRECISE_WAIT,
            { argument in
                let results = Unmanaged<Results>.fromOpaque(argument).takeUnretainedValue()
                let (set, event) = (cnl_wait_set_open(), cnl_event_open())
                defer { for descriptor in [set, event] { cnl_event_close(descriptor) } }
                results.results = [cnl_wait_set_add(set, event, 2), cnl_wait_set(set, 1)]
                cnl_event_signal(event)
                results.results.append(cnl_wait_set(set, 1_000_000_000))
            }, Unmanaged.passUnretained(results).toOpaque())
        #expect(refusal == 0)
        #expect(results.results == [0, 0, 0b100])
    }

    @Test func aSetRefusesWhatItCannotReport() {
        let set = cnl_wait_set_open()
        let event = cnl_event_open()
        defer { for descriptor in [set, event] { cnl_event_close(descriptor) } }
        #expect(cnl_wait_set_add(set, event, UInt32(CNL_WAIT_LIMIT)) == -EINVAL)
        #expect(cnl_wait_set_add(set, 1_000_000, 0) == -EBADF)
        #expect(cnl_wait_set_add(-1, event, 0) == -EBADF)
        #expect(cnl_wait_set(-1, 0) == -EBADF)
        #expect(cnl_wait_set(-1, 1_000_000) == -EBADF)
    }

    @Test func theClockStepsTimerRestsUntilThen() throws {
        let steps = cnl_clock_steps_open()
        try #require(steps >= 0)
        #expect(fcntl(steps, F_GETFD) & FD_CLOEXEC != 0 && fcntl(steps, F_GETFL) & O_NONBLOCK != 0)
        cnl_clock_steps_clear(steps)
        cnl_clock_steps_close(steps)
    }
}
