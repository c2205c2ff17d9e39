#if Service
import Foundation
import TestSupport
import Testing

/// `serve --hooks` as a person runs it, with a real cable.
@Suite(.timeLimit(.minutes(10)), .blocking, .serialized) struct ServeHookTests {
    /// A service with a directory of hooks.
    private final class HookedService {
        let daemon: ServeDaemon
        let machine: CabledMachine
        let hooks: String

        init() throws {
            (daemon, machine) = (try ServeDaemon(), try CabledMachine())
            hooks = try daemon.folder.makeFolder("hooks")
        }

        /// Writes a hook, a shell script.
        func write(_ name: String, _ script: String, mode: mode_t = 0o755) throws {
            try daemon.folder.writeProgram("#!/bin/sh\n\(script)", to: "hooks/\(name)", mode: mode)
        }

        /// Starts it; returns the place where it serves.
        func start(_ options: String..., setting: String = "true") throws -> String {
            try daemon.start(
                ["--netns", machine.name, "--listen", "unix:\(daemon.directory)/s", "--hooks", hooks] + options, setting: setting)
            return try #require(daemon.url())
        }

        /// Returns the next line of a hook without its prefix.
        func next(_ name: String) throws -> String {
            let prefix = "reachability-watch: hook \(name): "
            return String(try #require(daemon.line(with: prefix)).dropFirst(prefix.count))
        }

        /// Ends it; returns the last messages.
        func end(_ signal: Int32 = SIGTERM, code: Int32 = 143) -> [String] {
            daemon.signal(signal)
            let end = daemon.end()
            #expect(end.code == code)
            return end.messages
        }

        deinit { if let pid = number(in: "daemon") { kill(pid, SIGKILL) } }

        func number(in name: String) -> pid_t? {
            pid_t(daemon.folder.read(name).trimmingCharacters(in: .whitespacesAndNewlines))
        }
    }

    /// The values of a counter by its label.
    private static func hookCounts(_ url: String) throws -> [String: Int] {
        let text = try ServiceConnection(to: url).answer(to: "/metrics").body
        var counts: [String: Int] = [:]
        for line in text.split(separator: "\n") where line.hasPrefix("reachability_hooks_total{outcome=\"") {
            let parts = line.split(separator: "\"")
            counts[String(parts[1])] = Int(parts[2].dropFirst(2))
        }
        return counts
    }

    @Test func everyHookRunsForEachChange() throws {
        let service = try HookedService()
        try service.write("20-b", "echo \"$1 $REACHABILITY_SCOPE $REACHABILITY_REASON\"")
        try service.write("10-a", "echo \"$0 $1 $REACHABILITY_EVENT $REACHABILITY_INTERFACE\" >&2")
        try service.write("README", "exit 1", mode: 0o644)
        let url = try service.start()
        #expect(try service.next("10-a") == "\(service.hooks)/10-a online baseline eth0")
        #expect(try service.next("20-b") == "online internet ")
        #expect(service.daemon.messages.contains("reachability-watch: hooks in \(service.hooks): 10-a 20-b"))
        try service.machine.ip("link set far0 down")
        #expect(try service.next("10-a") == "\(service.hooks)/10-a offline transition ")
        #expect(try service.next("20-b") == "offline internet noCarrier")
        // The directory is read at each change.
        try service.write("15-new", "echo new")
        unlink("\(service.hooks)/10-a")
        try service.machine.ip("link set far0 up")
        #expect(try service.next("15-new") == "new")
        #expect(try service.next("20-b") == "online internet ")
        #expect(!service.daemon.messages.suffix(2).contains { $0.contains("10-a") })
        let counts = try Self.hookCounts(url)
        #expect(Set(counts.keys) == ["succeeded", "failed", "timedOut", "dropped", "refused"])
        // The end of the last one may not be known yet.
        #expect([5, 6].contains(counts["succeeded"]) && counts["failed"] == 0 && counts["refused"] == 0, "\(counts)")
        let status = try ServiceConnection(to: url).answer(to: "/status").body
        #expect(status.contains("\"hooks\":{\"directory\":\"\(service.hooks)\",\"succeeded\":"))
        _ = service.end()
    }

    @Test func hooksOfSeveralDestinationsKnowTheirScope() throws {
        let service = try HookedService()
        try service.write("a", "echo \"$1 $REACHABILITY_SCOPE\"")
        _ = try service.start("--to", "internet", "--to", "192.0.2.7")
        let lines: Set = [try service.next("a"), try service.next("a")]
        #expect(lines == ["online internet", "online 192.0.2.7"])
        try service.machine.ip("route del default")
        #expect(try service.next("a") == "offline internet")
        _ = service.end(SIGINT, code: 130)
    }

    @Test func hooksInheritNothingOfTheService() throws {
        let service = try HookedService()
        try service.write(
            "a",
            """
            readlink /proc/self/fd/0; ls /proc/self/fd | wc -l; grep -E 'SigBlk|SigIgn' /proc/self/status | tr -d '\\t'
            umask; ulimit -n; echo "$PPID $(ps -o pgid= -p $$ | tr -d ' ') $$"
            """)
        let url = try service.start(setting: "umask 022; ulimit -S -n 200")
        let reader = try ServiceConnection(to: url)
        try reader.openEvents()
        #expect(reader.nextEvent { $0.contains("event: baseline") } != nil)
        for run in 1...2 {
            #expect(try service.next("a") == "/dev/null")
            // Input, output and error, and the directory that ls reads.
            #expect(try service.next("a") == "4")
            for name in ["SigBlk", "SigIgn"] {
                let set = try service.next("a").split(separator: ":")
                // 32 and 33 are glibc's own (nptl(7)).
                #expect(set[0] == name && UInt64(set[1], radix: 16).map { $0 & 0x7fff_ffff } == 0, "\(set)")
            }
            #expect(try service.next("a") == "0022")
            #expect(try service.next("a") == "200")
            let numbers = try service.next("a").split(separator: " ")
            #expect(numbers[0] == "\(service.daemon.pid)" && numbers[1] == numbers[2])
            // With open connections.
            if run == 1 { try service.machine.ip("route del default") }
        }
        _ = service.end()
    }

    @Test func hooksThatOthersCouldChangeAreRefused() throws {
        let service = try HookedService()
        try service.write("a", "echo a", mode: 0o775)
        try service.write("b", "echo $1")
        let url = try service.start()
        #expect(try service.next("b") == "online")
        let refusal = "reachability-watch: the hook \(service.hooks)/a can be written by other users; next: chmod go-w"
        #expect(service.daemon.messages.contains(refusal))
        try service.machine.ip("route del default")
        #expect(try service.next("b") == "offline")
        chmod(service.hooks, 0o777)
        try service.machine.ip("route add default via 192.0.2.1")
        let whole = "reachability-watch: the directory \(service.hooks) can be written by other users; next: chmod go-w"
        #expect(service.daemon.line(with: "the directory") == whole)
        #expect(try Self.hookCounts(url)["refused"] == 3)
        chmod(service.hooks, 0o755)
        chmod("\(service.hooks)/a", 0o755)
        try service.machine.ip("route del default")
        #expect(try service.next("a") == "a")
        let messages = service.end()
        #expect(messages.count { $0 == refusal } == 1)
    }

    @Test func directoriesThatOthersCouldChangeEndTheStart() throws {
        let service = try HookedService()
        for (mode, code, text) in [(0o777, 77, "can be written by other users"), (0o700, 66, "No such file")]
            as [(mode_t, Int32, String)]
        {
            chmod(service.hooks, mode)
            let daemon = try ServeDaemon()
            let path = code == 66 ? "\(service.hooks)/nothing" : service.hooks
            try daemon.start(["--listen", "127.0.0.1:0", "--hooks", path])
            let end = daemon.end()
            #expect(end.code == code && end.messages.contains { $0.contains("--hooks: ") && $0.contains(text) }, "\(end)")
        }
    }

    @Test func failuresAreReportedOnceAndEndNothing() throws {
        let service = try HookedService()
        try service.write("a", "exit 3")
        try service.write("b", "kill -SEGV $$")
        try service.write("c", "echo $1")
        let url = try service.start()
        #expect(try service.next("c") == "online")
        for (line, status) in [("route del default", "offline"), ("route add default via 192.0.2.1", "online")] {
            try service.machine.ip(line)
            #expect(try service.next("c") == status)
        }
        #expect(try Self.hookCounts(url)["failed"] == 6)
        let messages = service.end()
        #expect(messages.filter { $0.contains("hook a: ") } == ["reachability-watch: hook a: exit code 3"])
        #expect(messages.count { $0.contains("hook b: ended by signal 11") } == 1)
    }

    @Test func aLateHookIsEndedWithItsProcesses() throws {
        let service = try HookedService()
        try service.write(
            "a", "trap '' TERM; setsid sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 1; done\" & while :; do sleep 1; done")
        try service.write("b", "echo $1")
        let url = try service.start("--hooks-timeout", "10s")
        let survivor = try #require(pid_t(try service.next("a")))
        #expect(service.daemon.line(with: "hook a runs for longer than 10s and is ended; next: ") != nil)
        #expect(try service.next("b") == "online")
        #expect(kill(survivor, 0) == -1)
        #expect(try Self.hookCounts(url)["timedOut"] == 1)
        _ = service.end()
    }

    @Test func aSignalEndsTheHookFirst() throws {
        let service = try HookedService()
        try service.write("a", "trap 'echo cleaned; exit' TERM; echo up; while :; do sleep 0.05; done")
        let url = try service.start(setting: ServeDaemon.withTimeToEnd)
        #expect(try service.next("a") == "up")
        let readers = try (0..<20).map { _ in try ServiceConnection(to: url) }
        for reader in readers { try reader.openEvents() }
        let messages = service.end()
        #expect(messages.last { $0.contains("hook a: ") } == "reachability-watch: hook a: cleaned")
        #expect(!FileManager.default.fileExists(atPath: "\(service.daemon.directory)/s"))
        #expect(readers.allSatisfy { $0.awaitEnd() })
    }

    @Test func processesThatKeepTheOutputDelayNothing() throws {
        let service = try HookedService()
        try service.write(
            "a",
            "[ $1 = offline ] || { sleep 1000 & echo $! >\(service.daemon.directory)/daemon; }; echo $1")
        _ = try service.start()
        #expect(try service.next("a") == "online")
        try service.machine.ip("route del default")
        #expect(try service.next("a") == "offline")
        let daemon = try #require(service.number(in: "daemon"))
        #expect(kill(daemon, 0) == 0)
        service.daemon.signal(SIGTERM)
        // It has the pipe of the hooks, but not standard error of the service.
        #expect(service.daemon.end().code == 143)
    }

    @Test func outputIsLimited() throws {
        let service = try HookedService()
        try service.write("a", "printf '\\033[2Jred\\n'; i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo line $i; done")
        _ = try service.start()
        #expect(try service.next("a") == "\\x1b[2Jred")
        #expect(service.daemon.line(with: "left out")?.contains("hook a: 401 more lines left out; next: ") == true)
        #expect(service.daemon.messages.count { $0.contains("hook a: line ") } == 99)
        _ = service.end()
    }

    @Test func aSlowHookSeesTheLastState() throws {
        let service = try HookedService()
        let gate = "\(service.daemon.directory)/gate"
        #expect(mkfifo(gate, 0o600) == 0)
        try service.write("a", "echo $1; [ $REACHABILITY_EVENT = transition ] || read line <\(gate)")
        let url = try service.start()
        #expect(try service.next("a") == "online")
        let reader = try ServiceConnection(to: url)
        try reader.openEvents()
        for line in ["route del default", "route add default via 192.0.2.1", "route del default"] {
            try service.machine.ip(line)
            #expect(reader.nextEvent { $0.contains("event: transition") } != nil)
        }
        #expect(service.daemon.line(with: " dropped: newer ones came while a hook ran; next: ") != nil)
        while try Self.hookCounts(url)["dropped"] != 2 {}
        try #require(FileHandle(forWritingAtPath: gate)).write(Data("go\n".utf8))
        #expect(try service.next("a") == "offline")
        _ = service.end()
    }
}
#endif
