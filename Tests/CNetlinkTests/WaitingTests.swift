import CNetlink
import CSandbox
import Foundation
import Glibc
import Testing

@Suite(.timeLimit(.minutes(10))) struct WaitingTests {
    @Test func waitReturnsReadyDescriptors() throws {
        let events = [cnl_eventfd_open(), cnl_eventfd_open(), cnl_eventfd_open()]
        defer { for event in events { cnl_close_descriptor(event) } }
        #expect(cnl_wait(events, 3, 0) == 0)
        #expect(cnl_wait(events, 3, 1_000) == 0)
        cnl_eventfd_signal(events[1])
        cnl_eventfd_signal(events[1])
        #expect(cnl_wait(events, 3, -1) == 0b010)
        cnl_eventfd_signal(events[2])
        #expect(cnl_wait(events, 3, -1) == 0b110)
        #expect(cnl_wait(events, 2, -1) == 0b010)
        cnl_clear(events[1])
        #expect(cnl_wait(events, 3, .max) == 0b100)
        cnl_clear(events[2])
        cnl_clear(events[2])
        #expect(cnl_wait(events, 3, 0) == 0)
    }

    @Test func negativeDescriptorsAreIgnoredInvalidOnesFail() {
        let event = cnl_eventfd_open()
        defer { cnl_close_descriptor(event) }
        cnl_eventfd_signal(event)
        #expect(cnl_wait([-1, event], 2, -1) == 0b10)
        #expect(cnl_wait([-1], 1, 1_000) == 0)
        #expect(cnl_wait(nil, 0, 1_000) == 0)
        #expect(cnl_wait([event, 1_000_000], 2, 0) == -EBADF)
        #expect(cnl_wait(Array(repeating: event, count: 9), 9, 0) == -EINVAL)
    }

    @Test func epollReturnsReadyDescriptors() throws {
        let set = cnl_epoll_open()
        let events = [cnl_eventfd_open(), cnl_eventfd_open()]
        try #require(set >= 0 && fcntl(set, F_GETFD) & FD_CLOEXEC != 0)
        defer { for descriptor in [set] + events { cnl_close_descriptor(descriptor) } }
        #expect(cnl_epoll_add(set, events[0], 0) == 0 && cnl_epoll_add(set, events[1], 7) == 0)
        #expect(cnl_epoll_wait(set, 0) == 0)
        #expect(cnl_epoll_wait(set, 1_000) == 0)
        cnl_eventfd_signal(events[1])
        #expect(cnl_epoll_wait(set, -1) == 0b1000_0000)
        cnl_eventfd_signal(events[0])
        #expect(cnl_epoll_wait(set, .max) == 0b1000_0001)
        #expect(cnl_epoll_wait(set, 0) == 0b1000_0001, "unread data is reported again")
        cnl_clear(events[0])
        #expect(cnl_epoll_remove(set, events[1]) == 0)
        #expect(cnl_epoll_wait(set, 1_000) == 0, "a removed descriptor is not reported")
        #expect(cnl_epoll_remove(set, events[1]) == -ENOENT)
    }

    /// A concurrent fork(2) has the same effect: the child has a copy until execve(2).
    @Test func removedDescriptorIsNeverReported() throws {
        let set = cnl_epoll_open()
        try #require(set >= 0)
        let events = [cnl_eventfd_open(), cnl_eventfd_open()]
        let copies = events.map { dup($0) }
        defer { for descriptor in copies + [set] { close(descriptor) } }
        for (place, event) in events.enumerated() {
            #expect(cnl_epoll_add(set, event, UInt32(place)) == 0)
            cnl_eventfd_signal(event)
        }
        cnl_close_descriptor(events[0])
        #expect(cnl_epoll_wait(set, 0) == 0b11, "closing alone leaves the entry")
        #expect(cnl_epoll_remove(set, events[1]) == 0)
        cnl_close_descriptor(events[1])
        #expect(cnl_epoll_wait(set, 0) == 0b01)
    }

    /// Kernels before 5.11 wait in milliseconds.
    @Test func epollWorksWithoutEpollPwait2() {
        /// The results of adding a descriptor, of an idle wait, and of a wait with readable data.
        final class Results {
            var results: [Int32] = []
        }
        let results = Results()
        let refusal = csandbox_run(
            CSANDBOX_NO_PRECISE_WAIT,
            { argument in
                let results = Unmanaged<Results>.fromOpaque(argument).takeUnretainedValue()
                let (set, event) = (cnl_epoll_open(), cnl_eventfd_open())
                defer { for descriptor in [set, event] { cnl_close_descriptor(descriptor) } }
                results.results = [cnl_epoll_add(set, event, 2), cnl_epoll_wait(set, 1)]
                cnl_eventfd_signal(event)
                results.results.append(cnl_epoll_wait(set, 1_000_000_000))
            }, Unmanaged.passUnretained(results).toOpaque())
        #expect(refusal == 0)
        #expect(results.results == [0, 0, 0b100])
    }

    @Test func epollRejectsInvalidPlaces() {
        let set = cnl_epoll_open()
        let event = cnl_eventfd_open()
        defer { for descriptor in [set, event] { cnl_close_descriptor(descriptor) } }
        #expect(cnl_epoll_add(set, event, UInt32(CNL_WAIT_LIMIT)) == -EINVAL)
        #expect(cnl_epoll_add(set, 1_000_000, 0) == -EBADF)
        #expect(cnl_epoll_add(-1, event, 0) == -EBADF)
        #expect(cnl_epoll_wait(-1, 0) == -EBADF)
        #expect(cnl_epoll_wait(-1, 1_000_000) == -EBADF)
    }

    /// The test cannot set the clock; it reads the timer's state from the kernel (proc_pid_fdinfo(5)).
    @Test func clockChangeTimerWaitsForClockChange() throws {
        let timer = cnl_clock_change_timer_open()
        try #require(timer >= 0)
        #expect(fcntl(timer, F_GETFD) & FD_CLOEXEC != 0 && fcntl(timer, F_GETFL) & O_NONBLOCK != 0)
        #expect(cnl_wait([timer], 1, 1_000_000) == 0, "the timer never expires")
        func expectArmed(_ location: SourceLocation = #_sourceLocation) throws {
            let lines = try String(contentsOfFile: "/proc/self/fdinfo/\(timer)", encoding: .utf8).split(separator: "\n")
            // CLOCK_REALTIME, TFD_TIMER_ABSTIME and TFD_TIMER_CANCEL_ON_SET, years ahead.
            #expect(lines.contains("clockid: 0") && lines.contains("settime flags: 03"), "\(lines)", sourceLocation: location)
            let left = try #require(lines.first { $0.hasPrefix("it_value: (") }, sourceLocation: location)
            let seconds = Int(left.dropFirst(11).prefix { $0.isNumber })
            #expect(try #require(seconds) > 86_400 * 365, "\(left)", sourceLocation: location)
        }
        try expectArmed()
        cnl_clear(timer)
        try expectArmed()
        #expect(cnl_wait([timer], 1, 1_000_000) == 0)
        cnl_close_descriptor(timer)
    }
}
