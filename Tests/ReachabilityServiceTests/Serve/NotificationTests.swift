import CSandbox
import CommandKit
import Foundation
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

/// Real datagrams.
@Suite(.timeLimit(.minutes(5)), .blocking) struct NotifySocketTests {
    @Test(arguments: [false, true]) func messagesArriveAtAPathOrAnAbstractName(isAbstract: Bool) throws {
        let name = "reachability-notify-\(getpid())-\(UInt32.random(in: 0 ... .max))"
        let receiver = try NotifyReceiver(isAbstract ? "@\(name)" : "/tmp/\(name)")
        let socket = try #require(NotifySocket(receiver.address))
        #expect(socket.send("READY=1\nSTATUS=grün") && socket.send("STOPPING=1"))
        #expect(receiver.next() == "READY=1\nSTATUS=grün")
        #expect(receiver.next() == "STOPPING=1")
    }

    @Test func aMissingManagerIsNoFailure() throws {
        #expect(try #require(NotifySocket("/tmp/no-such-socket-\(getpid())")).send("READY=1") == false)
    }

    @Test(arguments: ["", "@", "relative", "vsock:2:9999", "/" + String(repeating: "x", count: 107)])
    func otherAddressesAreIgnored(address: String) {
        #expect(NotifySocket(address) == nil)
    }
}

#if Service
/// The service on a simulated network.
@Suite(.timeLimit(.minutes(5))) struct NotifyingServiceTests {
    @Test func readyFollowsTheFirstVerdictAndStatusEachChange() async throws {
        let messages = Rendezvous<[String]>([])
        let notifier = ServiceNotifier(watchdog: nil) { message in messages.change { $0.append(message) } }
        try await ServedNetwork.serving(notifier: notifier) { served in
            let reader = try served.connect()
            try reader.openEvents()
            #expect(reader.nextEvent { $0.contains("event: baseline") } != nil)
            try served.pull()
            #expect(reader.nextEvent { $0.contains("event: transition") } != nil)
        }
        let seen = messages.value
        try #require(seen.count >= 3, "\(seen)")
        #expect(seen[0] == "STATUS=waiting for the first verdict" && seen[2] == "READY=1")
        #expect(seen[1].hasPrefix("STATUS=satisfied via eth0, gateway 192.0.2.1, source 192.0.2.10"))
        #expect(seen.contains("STATUS=unsatisfied: no carrier"), "\(seen)")
        #expect(seen.filter { $0 == "READY=1" }.count == 1 && seen.contains("STOPPING=1"))
    }

    @Test func eachOfSeveralScopesHasItsPartOfTheStatus() async throws {
        let messages = Rendezvous<[String]>([])
        let notifier = ServiceNotifier(watchdog: nil) { message in messages.change { $0.append(message) } }
        let nas = Scope.address(IPAddress(family: .ipv4, value: 0xc000_0207))
        try await ServedNetwork.serving(scopes: [.internet, nas], notifier: notifier) { _ in
            try await messages.wait { $0.contains("READY=1") }
        }
        let before = try #require(messages.value.split(separator: "READY=1").first?.last)
        #expect(before.hasPrefix("STATUS=internet: satisfied via eth0, ") && before.contains("; 192.0.2.7: satisfied via eth0, "))
    }
}

/// The built command with a real socket of a service manager.
@Suite(.timeLimit(.minutes(5)), .blocking) struct NotifyingProgramTests {
    /// Starts the command for a manager that wants a sign of life within 400 ms.
    private static func start(_ manager: NotifyReceiver, _ machine: CabledMachine) throws -> ServeDaemon {
        let daemon = try ServeDaemon()
        try daemon.start(
            ["--netns", machine.name, "--listen", "unix:\(daemon.directory)/s"],
            setting: "export NOTIFY_SOCKET=\(manager.address) WATCHDOG_USEC=400000 WATCHDOG_PID=$$")
        return daemon
    }

    @Test func theManagerHearsOfReadinessStateAndEnd() throws {
        let (manager, machine) = (try NotifyReceiver(), try CabledMachine())
        let daemon = try Self.start(manager, machine)
        #expect(manager.next { $0.hasPrefix("STATUS=satisfied via eth0, gateway 192.0.2.1") } != nil)
        #expect(manager.next { $0 == "READY=1" } != nil)
        #expect(manager.next { $0 == "WATCHDOG=1" } != nil)
        try machine.ip("link set far0 down")
        #expect(manager.next { $0.hasPrefix("STATUS=unsatisfied") } != nil)
        daemon.signal(SIGTERM)
        #expect(manager.next { $0 == "STOPPING=1" } != nil)
        #expect(daemon.end().code == 143)
    }

    /// A thread that stands still, in a process whose others go on.
    @Test func aStuckReaderIsNotFed() throws {
        let (manager, machine) = (try NotifyReceiver(), try CabledMachine())
        let daemon = try Self.start(manager, machine)
        let url = try #require(daemon.url())
        #expect(manager.next { $0 == "WATCHDOG=1" } != nil)
        let threads = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(daemon.pid)/task").compactMap { Int32($0) }
        let reader = try #require(
            threads.first { thread in
                (try? String(contentsOfFile: "/proc/\(daemon.pid)/task/\(thread)/comm", encoding: .utf8)) == "reachability\n"
            })
        try #require(csandbox_freeze(reader) == 0)
        // A thread that is traced cannot end.
        defer { csandbox_thaw(reader) }
        // The socket may hold ten older signs (net.unix.max_dgram_qlen), and one may be on its way.
        var late = 0
        while late < 20, manager.next(within: 2) != nil { late += 1 }
        #expect(late < 20, "a reader that stands still gives signs of life")
        #expect(try ServiceConnection(to: url).answer(to: "/metrics").status == 200, "the process goes on")
        try #require(csandbox_thaw(reader) == 0)
        #expect(manager.next { $0 == "WATCHDOG=1" } != nil)
        daemon.signal(SIGTERM)
        #expect(daemon.end().code == 143)
    }
}
#endif
