import Glibc
import Reachability
import ReachabilityTesting
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

/// The log of `watch`, in a folder of its own and with virtual time.
@Suite(.timeLimit(.minutes(10))) final class WatchLogTests {
    private let folder: TemporaryFolder
    private let clock = ManualClock()
    private let notes = Rendezvous<[String]>([])
    private static let scopes = [Scope.internet, .address(Samples.address("192.0.2.7"))]

    init() throws { folder = try TemporaryFolder() }

    private func log(largest: Int64 = 1 << 20, kept: Int = 3, scopes: [Scope] = WatchLogTests.scopes) throws -> WatchLog {
        try WatchLog(
            .init(path: ForeignText("\(folder.path)/log"), largest: largest, kept: kept), scopes: scopes, clock: clock,
            now: { [clock] in
                Moment(at: BootInstant(sinceBoot: clock.now.offset), wallTime: Samples.morning + clock.now.offset)
            })
    }

    /// Passes messages about the file to ``notes``.
    private func listen(_ log: WatchLog) async {
        await log.record([]) { [notes] text in notes.change { $0.append(text) } }
    }

    private func baseline() -> Transition { Samples.baseline(Samples.online(), at: clock.now.offset) }

    private func flip(_ sequence: UInt64) -> Transition {
        let (online, offline) = (Samples.online(), Samples.offline())
        return sequence % 2 == 1
            ? Samples.transition(sequence, from: online, to: offline, .offline, Samples.cableCut, at: clock.now.offset)
            : Samples.transition(sequence, from: offline, to: online, .online, Samples.cableBack, at: clock.now.offset)
    }

    /// Returns a file's lines in short: `baseline 3 satisfied`, with `+` if it is continued, and the scope unless the internet.
    private func lines(_ name: String = "log") -> [String] {
        folder.read(name).split(separator: "\n", omittingEmptySubsequences: false).dropLast().map { line in
            func value(_ key: String) -> Substring? {
                line.firstRange(of: "\"\(key)\":").map { range in
                    line[range.upperBound...].prefix { $0 != "," && $0 != "}" }.filter { $0 != "\"" }[...]
                }
            }
            guard line.first == "{", line.last == "}" else { return "damaged" }
            var words = [value("event") ?? "?"]
            if let sequence = value("sequence") { words += [sequence, value("status") ?? "?"] }
            if let scope = value("scope"), scope != "internet" { words.append(scope) }
            return words.joined(separator: " ") + (value("continued") == "true" ? " +" : "")
        }
    }

    @Test func linesAreThoseOfStandardOutput() async throws {
        let log = try log()
        await log.write(baseline(), ofScopeAt: 0)
        await log.write(flip(1), ofScopeAt: 0)
        let expected = [baseline(), flip(1)].map { "\(JSONValue.transition($0, of: .internet))\n" }.joined()
        #expect(folder.read("log") == expected)
        var information = stat()
        #expect(stat("\(folder.path)/log", &information) == 0 && information.st_mode & 0o7777 == 0o600)
    }

    @Test func eachFileBeginsWithEveryScope() async throws {
        let log = try log(largest: 4000)
        await log.write(baseline(), ofScopeAt: 0)
        await log.write(baseline(), ofScopeAt: 1)
        for sequence in 1...40 as ClosedRange<UInt64> { await log.write(flip(sequence), ofScopeAt: 0) }
        #expect(folder.names == ["log", "log.1", "log.2", "log.3"])
        var next: UInt64 = 40
        for name in folder.names {
            let lines = lines(name)
            #expect(folder.read(name).utf8.count <= 4000)
            #expect(lines.count > 3 && !lines.contains("damaged"))
            #expect(lines[1] == "baseline 0 satisfied 192.0.2.7 +")
            // Backwards: each file ends where the next one begins.
            let transitions = lines.dropFirst(2)
            let first = next - UInt64(transitions.count) + 1
            #expect(
                transitions == (first...next).map { "transition \($0) \($0 % 2 == 1 ? "unsatisfied" : "satisfied")" }[...])
            #expect(lines[0] == "baseline \(first - 1) \(first % 2 == 0 ? "unsatisfied" : "satisfied") +")
            next = first - 1
        }
        #expect(next > 0, "the oldest files are deleted")
    }

    @Test func aNewBeginningHasTheTimeOfItsFirstLine() async throws {
        let log = try log(largest: 1500, scopes: [.internet])
        await log.write(baseline(), ofScopeAt: 0)
        clock.advance(by: .seconds(30))
        await log.write(flip(1), ofScopeAt: 0)
        clock.advance(by: .seconds(15))
        await log.write(flip(2), ofScopeAt: 0)
        #expect(lines() == ["baseline 1 unsatisfied +", "transition 2 satisfied"])
        let first = folder.read("log").split(separator: "\n")[0]
        #expect(first.contains(#""at":45.000000000,"#), "\(first)")
        // Half of 0.5 after a half-life.
        #expect(first.contains(#""flapPenalty":0.25,"#), "\(first)")
    }

    @Test func noOldFilesAreKeptIfUnwanted() async throws {
        let log = try log(largest: 1500, kept: 0, scopes: [.internet])
        await log.write(baseline(), ofScopeAt: 0)
        for sequence in 1...9 as ClosedRange<UInt64> { await log.write(flip(sequence), ofScopeAt: 0) }
        #expect(folder.names == ["log"])
        #expect(lines().last == "transition 9 unsatisfied")
    }

    @Test func aSmallLimitHoldsOneLineAtLeast() async throws {
        let log = try log(largest: 1, scopes: [.internet])
        await log.write(baseline(), ofScopeAt: 0)
        await log.write(flip(1), ofScopeAt: 0)
        #expect(lines("log.1") == ["baseline 0 satisfied"])
        #expect(lines() == ["baseline 0 satisfied +", "transition 1 unsatisfied"])
    }

    @Test func aLaterWatchAppends() async throws {
        let first = try log(scopes: [.internet])
        await first.write(baseline(), ofScopeAt: 0)
        await first.end()
        await first.write(flip(1), ofScopeAt: 0)
        let second = try log(scopes: [.internet])
        await second.write(baseline(), ofScopeAt: 0)
        #expect(lines() == ["baseline 0 satisfied", "end", "baseline 0 satisfied"])
        #expect(folder.read("log").contains(#"{"event":"end","time":"2026-01-31T10:00:00.123456Z","at":0.000000000}"#))
    }

    @Test func anIncompleteLineIsEnded() async throws {
        try folder.write(#"{"event":"transition","seq"#, to: "log")
        let log = try log(scopes: [.internet])
        await log.write(baseline(), ofScopeAt: 0)
        #expect(lines() == ["damaged", "baseline 0 satisfied"])
    }

    @Test func aLineComesEveryFiveMinutes() async throws {
        let log = try log(scopes: [.internet])
        await log.write(baseline(), ofScopeAt: 0)
        clock.advance(by: .seconds(100))
        await log.write(flip(1), ofScopeAt: 0)
        let next = try await clock.nextSleep()
        #expect(next.offset == .seconds(400))
        clock.advance(to: next)
        #expect(try await clock.nextSleep().offset == .seconds(700))
        #expect(lines() == ["baseline 0 satisfied", "transition 1 unsatisfied", "alive"])
        #expect(folder.read("log").hasSuffix(#"{"event":"alive","time":"2026-01-31T10:06:40.123456Z","at":400.000000000}"# + "\n"))
    }

    @Test func reopeningBeginsANewFile() async throws {
        let log = try log()
        await log.write(baseline(), ofScopeAt: 0)
        await log.write(baseline(), ofScopeAt: 1)
        await log.write(flip(1), ofScopeAt: 0)
        rename("\(folder.path)/log", "\(folder.path)/moved")
        await log.write(flip(2), ofScopeAt: 0)
        #expect(lines("moved").last == "transition 2 satisfied")
        await log.reopen()
        #expect(lines() == ["baseline 2 satisfied +", "baseline 0 satisfied 192.0.2.7 +"])
        await log.write(flip(3), ofScopeAt: 0)
        #expect(lines().last == "transition 3 unsatisfied" && lines("moved").count == 4)
    }

    @Test func aMovedFileIsNotRenamedAgain() async throws {
        let log = try log(largest: 1500, scopes: [.internet])
        await log.write(baseline(), ofScopeAt: 0)
        rename("\(folder.path)/log", "\(folder.path)/moved")
        try folder.write("", to: "log")
        for sequence in 1...2 as ClosedRange<UInt64> { await log.write(flip(sequence), ofScopeAt: 0) }
        #expect(folder.names == ["log", "moved"])
        #expect(lines() == ["baseline 1 unsatisfied +", "transition 2 satisfied"])
    }

    @Test func aDeletedFileIsCreatedAgain() async throws {
        let log = try log(scopes: [.internet])
        await listen(log)
        await log.write(baseline(), ofScopeAt: 0)
        unlink("\(folder.path)/log")
        await log.write(flip(1), ofScopeAt: 0)
        #expect(lines() == ["baseline 0 satisfied +", "transition 1 unsatisfied"])
        #expect(
            notes.value == ["\(folder.path)/log was deleted and begins again; next: end the watch before you delete its log"])
    }

    @Test func anEmptiedFileBeginsAgain() async throws {
        let log = try log(scopes: [.internet])
        await log.write(baseline(), ofScopeAt: 0)
        await log.write(flip(1), ofScopeAt: 0)
        // As copytruncate of logrotate(8).
        truncate("\(folder.path)/log", 0)
        await log.write(flip(2), ofScopeAt: 0)
        #expect(lines() == ["baseline 1 unsatisfied +", "transition 2 satisfied"])
    }

    @Test func aFailureIsReportedOnceAndLeavesAGap() async throws {
        let log = try log(scopes: [.internet])
        await listen(log)
        await log.write(baseline(), ofScopeAt: 0)
        await log.write(flip(1), ofScopeAt: 0)
        rename("\(folder.path)/log", "\(folder.path)/moved")
        mkdir("\(folder.path)/log", 0o700)
        await log.reopen()
        for sequence in 2...5 as ClosedRange<UInt64> { await log.write(flip(sequence), ofScopeAt: 0) }
        try await notes.wait { !$0.isEmpty }
        #expect(
            notes.value == ["\(folder.path)/log is a directory; next: name a file in it; the log continues when it can"])
        rmdir("\(folder.path)/log")
        // Without a transition it is tried again after 30 s.
        let next = try await clock.nextSleep()
        #expect(next.offset == .seconds(30))
        clock.advance(to: next)
        try await notes.wait { $0.count == 2 }
        #expect(notes.value.last == "\(folder.path)/log is written again")
        #expect(lines() == ["baseline 5 unsatisfied +", "alive"])
        #expect(lines("moved").last == "transition 1 unsatisfied")
    }

    @Test func aWatchThatBeginsLateIsNotContinued() async throws {
        let log = try log(scopes: [.internet])
        unlink("\(folder.path)/log")
        mkdir("\(folder.path)/log", 0o700)
        await log.write(baseline(), ofScopeAt: 0)
        rmdir("\(folder.path)/log")
        try folder.write(#"{"event":"alive"}"# + "\n", to: "log")
        await log.write(flip(1), ofScopeAt: 0)
        #expect(lines() == ["alive", "baseline 0 satisfied", "transition 1 unsatisfied"])
    }

    @Test(arguments: ["folder", "page", "link"]) func otherFilesAreNotReplaced(_ kind: String) async throws {
        let log = try log(largest: 1500, kept: 2, scopes: [.internet])
        await listen(log)
        let other = "\(folder.path)/log.2"
        switch kind {
        case "folder": mkdir(other, 0o700)
        case "link": symlink("\(folder.path)/log", other)
        default: try folder.write("a manual page", to: "log.2")
        }
        await log.write(baseline(), ofScopeAt: 0)
        for sequence in 1...3 as ClosedRange<UInt64> { await log.write(flip(sequence), ofScopeAt: 0) }
        #expect(lines() == ["baseline 0 satisfied"] + (1...3).map { "transition \($0) \($0 % 2 == 1 ? "un" : "")satisfied" })
        #expect(
            notes.value == [
                "\(folder.path)/log goes on growing, because \(other) is no log of watch; next: move that file away"
            ])
        #expect(kind != "page" || folder.read("log.2") == "a manual page")
        remove(other)
        for sequence in 4...6 as ClosedRange<UInt64> { await log.write(flip(sequence), ofScopeAt: 0) }
        #expect(folder.names.contains("log.1") && notes.value.count == 1)
    }

    @Test func aFileThatCannotBeRenamedGrows() async throws {
        // Another digit makes the name too long.
        let name = String(repeating: "x", count: Int(NAME_MAX) - 1)
        let file = LogFile(.init(path: ForeignText("\(folder.path)/\(name)"), largest: 10, kept: 1))
        try file.open()
        try file.append(Array("{\"event\":0}\n".utf8))
        #expect(try file.rotate()?.contains("cannot be renamed and goes on growing: File name too long (errno 36); next: ") == true)
        try file.append(Array("{\"event\":1}\n".utf8))
        #expect(folder.names == [name] && folder.read(name).hasSuffix("1}\n"))
        file.close()
    }

    @Test func aNameIsBytes() throws {
        let path = Array("\(folder.path)/l".utf8) + [0xff, UInt8(ascii: "g")]
        let file = LogFile(.init(path: ForeignText(path), largest: 10, kept: 1))
        try file.open()
        try file.append(Array("{\"event\":0}\n".utf8))
        #expect(try file.rotate() == nil)
        for end in ["", ".1"] {
            let whole = (path + Array(end.utf8)).map(CChar.init(bitPattern:)) + [0]
            #expect(unlink(whole) == 0)
        }
        #expect(file.name.hasSuffix(#"/l\xffg"#))
    }

    @Test(
        arguments: [
            ("link", CommandKit.ExitStatus.cannotCreate, "is a symbolic link; next: name the file itself"),
            ("fifo", .cannotCreate, "is no regular file; next: choose another name"),
            ("folder", .cannotCreate, "is a directory; next: name a file in it"),
            ("none/log", .cannotCreate, "cannot be opened: No such file or directory (errno 2); next: create its directory"),
            ("shared", .notPermitted, "may be written by others; next: chmod go-w "),
            ("page.html", .cannotCreate, "is no log of watch; next: choose another file"),
        ] as [(String, CommandKit.ExitStatus, String)])
    func unsafeFilesAreRefused(_ name: String, _ status: CommandKit.ExitStatus, _ message: String) throws {
        symlink("\(folder.path)/target", "\(folder.path)/link")
        mkfifo("\(folder.path)/fifo", 0o600)
        mkdir("\(folder.path)/folder", 0o700)
        defer { rmdir("\(folder.path)/folder") }
        try folder.write("", to: "shared", mode: 0o620)
        try folder.write("<!doctype html>", to: "page.html")
        let error = #expect(throws: CommandFailure.self) {
            try LogFile(.init(path: ForeignText("\(folder.path)/\(name)"), largest: 1 << 20, kept: 1)).open()
        }
        #expect(error?.status == status)
        #expect(error?.message.hasPrefix("\(folder.path)/\(name) \(message)") == true, "\(error?.message ?? "")")
        #expect(!folder.names.contains("target") && folder.read("page.html") == "<!doctype html>")
    }

    @Test func filesOfOtherUsersAreRefused() throws {
        try folder.write("", to: "log")
        // Only root may give a file away.
        guard chown("\(folder.path)/log", 1, 1) == 0 else { return }
        let error = #expect(throws: CommandFailure.self) { try log() }
        #expect(error?.status == .notPermitted && error?.message.contains("belongs to another user") == true)
    }

    @Test func oneProcessWritesAFile() async throws {
        let first = try log()
        let error = #expect(throws: CommandFailure.self) { try log() }
        #expect(error?.message.hasSuffix("is the log of another process; next: choose another file") == true)
        await first.end()
        #expect(throws: Never.self) { try log() }
    }

    @Test func aChildThatHasNotBegunKeepsNoLock() async throws {
        let first = try log()
        // What a child has between fork(2) and execve(2).
        let open = try #require(openFiles().first { $0.value == "\(folder.path)/log" })
        let copy = fcntl(open.key, F_DUPFD_CLOEXEC, 0)
        defer { close(copy) }
        await first.end()
        #expect(throws: Never.self) { try log() }
    }
}

/// `watch` with a log, on a simulated network.
@Suite(.timeLimit(.minutes(10)), .blocking) struct WatchLogSessionTests {
    private let clock = ManualClock()
    private let network: SimulatedNetwork
    private let folder: TemporaryFolder

    init() throws {
        network = .online(clock: clock)
        folder = try TemporaryFolder()
    }

    private func session(_ output: LineCollector) throws -> WatchSession {
        var configuration = ReachabilityMonitor.Configuration()
        configuration.lossGrace = .zero
        let log = try WatchLog(
            .init(path: ForeignText("\(folder.path)/log"), largest: 1 << 20, kept: 1), scopes: [.internet], clock: clock,
            now: { [clock] in Moment(at: BootInstant(sinceBoot: clock.now.offset), wallTime: Samples.morning) })
        return WatchSession(
            monitor: ReachabilityMonitor(network, configuration: configuration), scopes: [.internet], clock: clock, output: output,
            notes: output, log: log)
    }

    @Test func theLogHasAllLinesAndTheEnd() async throws {
        let output = LineCollector()
        var session = try session(output)
        session.format = .json
        session.count = 3
        async let end = session.run()
        _ = await output.next()
        try network.pull("eth0")
        try network.plug("eth0")
        #expect(await end == .done)
        let log = folder.read("log").split(separator: "\n").map(String.init)
        #expect(log.dropLast() == output.lines[...] && output.lines.count == 3)
        #expect(log.last?.hasPrefix(#"{"event":"end","#) == true)
    }

    @Test func aBlockedReaderDoesNotHoldUpTheLog() async throws {
        let written = Rendezvous(false)
        let output = LineCollector { [network, folder] count throws(OutputFailure) in
            // The reader of standard output takes nothing until the log has the transition.
            let changes = try? FolderChanges(folder.path)
            try? network.pull("eth0")
            while !folder.read("log").contains(#""event":"transition""#) { try? changes?.next() }
            written.change { $0 = true }
        }
        var session = try session(output)
        session.count = 1
        #expect(await session.run() == .done && written.value)
    }

    @Test func aSignalEndsTheLogAndAnotherOneReopensIt() async throws {
        let output = LineCollector()
        let session = try session(output)
        let (signals, signal) = AsyncStream.makeStream(of: Int32.self)
        async let end = session.run(until: signals)
        _ = await output.next()
        let changes = try FolderChanges(folder.path)
        while !folder.read("log").contains("baseline") { try changes.next() }
        rename("\(folder.path)/log", "\(folder.path)/moved")
        signal.yield(SIGHUP)
        while !folder.read("log").contains(#""continued":true"#) { try changes.next() }
        signal.yield(SIGTERM)
        #expect(await end == .done)
        #expect(folder.read("log").contains(#"{"event":"end","#))
        #expect(folder.read("moved").split(separator: "\n").count == 1)
    }

    @Test func theMonitorsErrorEndsTheLog() async throws {
        let output = LineCollector()
        let session = try session(output)
        async let end = session.run()
        _ = await output.next()
        network.stop(throwing: ReachabilityError(.netlinkUnavailable, errno: 97, operation: "socket(AF_NETLINK)"))
        _ = await end
        let log = folder.read("log").split(separator: "\n")
        #expect(log.count == 2 && log[1].hasPrefix(#"{"event":"end","#), "\(log)")
    }
}
