#if Service
import CSandbox
import Foundation
import TestSupport
import Testing

/// The built command with the event socket of a service manager.
@Suite(.timeLimit(.minutes(10)), .blocking) struct HandOverProgramTests {
    /// A service manager: its event socket, and the socket for its service's messages.
    private final class Manager {
        let notifications = try? NotifyReceiver()
        private let machine: CabledMachine
        private let events: FileHandle

        init(_ machine: CabledMachine) throws {
            self.machine = machine
            let descriptor = csandbox_listen_netlink("/run/netns/\(machine.name)", 2_172_913_105, 16 << 20)
            try #require(descriptor >= 0, "errno \(-descriptor)")
            events = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        }

        /// Starts the service with the event socket as its third descriptor.
        func start() throws -> ServeDaemon {
            let (daemon, notifications) = (try ServeDaemon(), try #require(notifications))
            try daemon.start(
                ["--netns", machine.name, "--listen", "unix:\(daemon.directory)/s"],
                setting: "exec 3<&0 0</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=netlink; "
                    + "export NOTIFY_SOCKET=\(notifications.address)",
                input: events)
            return daemon
        }

        func awaitReady() throws { _ = try #require(notifications?.next { $0 == "READY=1" }) }
    }

    /// Returns the number of rule events that a service counted.
    private static func rules(in messages: [String]) throws -> Int {
        let last = try #require(messages.last { $0.contains("ended after ") }, "\(messages)")
        let numbers = last.split { !$0.isNumber && !$0.isLetter }
        return numbers.firstIndex(of: "rule").flatMap { Int(numbers[$0 + 1]) } ?? 0
    }

    @Test func thousandChangesDuringTwentyRestartsAreAllCounted() throws {
        let machine = try CabledMachine()
        let manager = try Manager(machine)
        var (made, counted) = (0, 0)
        func change(_ count: Int) throws {
            let lines = (0..<count).map { "rule add priority \(1000 + made + $0) to 203.0.113.0/24 prohibit\n" }
            try machine.run(lines.joined())
            made += count
        }
        for run in 0...20 {
            // While no service runs, while one starts, runs, and ends. The last one finds what the others have left.
            if run < 20 { try change(10) }
            let daemon = try manager.start()
            if run < 20 { try change(10) }
            try manager.awaitReady()
            if run < 20 { try change(20) }
            if run % 5 == 0 {
                let metrics = try ServiceConnection(to: "unix:\(daemon.directory)/s").answer(to: "/metrics").body
                for name in ["event_losses", "dropped_events", "socket_reopens", "missed_events"] {
                    #expect(metrics.contains("reachability_monitor_\(name)_total 0\n"))
                }
                #expect(metrics.contains(#"reachability_monitor_events_total{kind="rule"} "#))
            }
            daemon.signal(SIGTERM)
            if run < 20 { try change(10) }
            let end = daemon.end()
            #expect(end.code == 143)
            counted += try Self.rules(in: end.messages)
        }
        #expect(made == 1000)
        #expect(counted == made)
    }

    @Test func aDescriptorThatCannotBeUsedIsReported() throws {
        let machine = try CabledMachine()
        let daemon = try ServeDaemon()
        try daemon.start(
            ["--netns", machine.name, "--listen", "unix:\(daemon.directory)/s"],
            setting: "exec 3</dev/null; export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=netlink")
        let url = try #require(daemon.url())
        #expect(try ServiceConnection(to: url).answer(to: "/status").status == 200)
        daemon.signal(SIGTERM)
        let end = daemon.end()
        #expect(end.code == 143)
        #expect(
            end.messages.contains {
                $0.contains("netlink") && $0.contains("Socket operation on non-socket") && $0.contains("next: ")
            }, "\(end.messages)")
    }
}
#endif
