import Testing

@testable import CommandKit

struct ServiceManagerTests {
    private static func manager(_ environment: [String: String]) -> ServiceManager {
        ServiceManager(environment: { environment[$0] }, process: 77)
    }

    @Test func emptyEnvironmentHasNoManager() {
        let manager = Self.manager([:])
        #expect(manager.notifyAddress == nil && manager.watchdog == nil && manager.descriptors.isEmpty)
    }

    @Test func descriptorsHaveTheirNames() {
        let manager = Self.manager(["LISTEN_PID": "77", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "netlink:http"])
        #expect(manager.descriptors == [.init(number: 3, name: "netlink"), .init(number: 4, name: "http")])
        for names in ["netlink", "a:b:c", ""] {
            let manager = Self.manager(["LISTEN_PID": "77", "LISTEN_FDS": "2", "LISTEN_FDNAMES": names])
            #expect(manager.descriptors.map(\.name) == ["unknown", "unknown"])
        }
        #expect(Self.manager(["LISTEN_PID": "77", "LISTEN_FDS": "1"]).descriptors == [.init(number: 3, name: "unknown")])
    }

    @Test(arguments: [
        ["LISTEN_FDS": "1"], ["LISTEN_PID": "78", "LISTEN_FDS": "1"], ["LISTEN_PID": "77"], ["LISTEN_PID": "", "LISTEN_FDS": "1"],
        ["LISTEN_PID": "77", "LISTEN_FDS": "0"], ["LISTEN_PID": "77", "LISTEN_FDS": "-1"], ["LISTEN_PID": "77", "LISTEN_FDS": "x"],
        ["LISTEN_PID": "77", "LISTEN_FDS": "2147483647"], ["LISTEN_PID": "77x", "LISTEN_FDS": "1"],
    ])
    func descriptorsOfAnotherProcessAreIgnored(environment: [String: String]) {
        #expect(Self.manager(environment).descriptors.isEmpty)
    }

    @Test func watchdogIsThatOfThisProcess() {
        #expect(Self.manager(["WATCHDOG_USEC": "30000000"]).watchdog == .seconds(30))
        #expect(Self.manager(["WATCHDOG_USEC": "1", "WATCHDOG_PID": "77"]).watchdog == .microseconds(1))
        for (limit, process) in [("30000000", "78"), ("30000000", ""), ("0", "77"), ("-5", "77"), ("soon", "77"), ("", "77")] {
            #expect(Self.manager(["WATCHDOG_USEC": limit, "WATCHDOG_PID": process]).watchdog == nil)
        }
        #expect(Self.manager(["NOTIFY_SOCKET": ""]).notifyAddress == nil)
    }
}

struct ServiceNotificationsTests {
    private var notifications = ServiceNotifications()

    @Test mutating func readyAndEndAreSaidOnce() {
        #expect(notifications.noteReady() == "READY=1")
        #expect(notifications.noteReady() == nil)
        #expect(notifications.noteStop() == "STOPPING=1")
        #expect(notifications.noteStop() == nil && notifications.noteReady() == nil)
    }

    @Test mutating func aServiceThatEndsIsNotReady() {
        #expect(notifications.noteStop() == "STOPPING=1")
        #expect(notifications.noteReady() == nil)
    }

    @Test mutating func statusIsSentWhenItChanges() {
        #expect(notifications.note(status: "satisfied via eth0") == "STATUS=satisfied via eth0")
        #expect(notifications.note(status: "satisfied via eth0") == nil)
        #expect(notifications.note(status: "unsatisfied") == "STATUS=unsatisfied")
        #expect(notifications.note(status: "satisfied via eth0") == "STATUS=satisfied via eth0")
    }

    @Test mutating func statusIsOneShortLine() throws {
        #expect(notifications.note(status: "via a\nREADY=1\u{1b}") == #"STATUS=via a\x0aREADY=1\x1b"#)
        let message = notifications.note(status: String(repeating: "ü", count: 5000))
        let long = try #require(message)
        #expect(long.utf8.count < 2100 && long.hasSuffix("ü…"))
    }

    @Test mutating func onlyAPassingReaderFeedsTheWatchdog() {
        #expect(notifications.tick(passes: 5) == nil, "nothing is known about the reader yet")
        #expect(notifications.tick(passes: 6) == "WATCHDOG=1")
        #expect(notifications.tick(passes: 6) == nil)
        #expect(notifications.tick(passes: 6) == nil)
        #expect(notifications.tick(passes: 9) == "WATCHDOG=1")
        _ = notifications.noteStop()
        #expect(notifications.tick(passes: 10) == nil)
    }

    @Test func aLateReaderHasASecondChance() {
        #expect(ServiceNotifications.interval(ofWatchdog: .seconds(30)) == .milliseconds(7500))
        #expect(ServiceNotifications.interval(ofWatchdog: .microseconds(1)) == .milliseconds(1))
    }
}
