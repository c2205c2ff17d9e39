#if SQLite
import CommandKit
import Foundation
import GRDB
import Reachability
import TestSupport
import Testing

@testable import reachability_service

extension TemporaryFolder {
    /// A directory that does not exist yet.
    fileprivate var history: String { "\(path)/history" }
    fileprivate var file: String { "\(history)/history.db" }
}

@Suite(.timeLimit(.minutes(10))) struct HistoryFileTests {
    private static let start = Duration.seconds(1_767_225_600)

    private static func observation(
        _ status: NetworkPath.Status, at seconds: Int64, scope: String = "internet", kind: Observation.Kind = .transition
    ) -> Observation {
        Observation(
            kind: kind, time: start + .seconds(seconds), sinceBoot: .seconds(1000 + seconds), scope: scope, status: status,
            reason: status == .unsatisfied ? "noCarrier" : nil, interface: "a\\xffb", kinds: ["offline", "resynced"],
            causeKind: "linkDown", causeDetail: "\u{1b}[31m", flapPenalty: 0.1,
            losses: kind == .transition ? 3 : nil, sequence: UInt64(max(0, seconds)))
    }

    private static func statuses(_ history: History, from: Int64, until: Int64) async -> [String] {
        let timelines = await history.timelines(from: start + .seconds(from), until: start + .seconds(until))
        return timelines.first?.spans.map { "\($0.status.rawValue) \($0.duration.components.seconds)" } ?? []
    }

    private static func stored(in file: HistoryFile, from: Duration, of scopes: [String]) async throws -> [Observation] {
        try await file.reduce(into: [], from: from, of: scopes) { $0.append($1) }
    }

    @Test func observationsComeBackAsTheyWere() async throws {
        let directory = try TemporaryFolder()
        let file = try HistoryFile(directory: directory.history + "/a/b", started: Self.start)
        let written = [Self.observation(.satisfied, at: 0, kind: .baseline), Self.observation(.unsatisfied, at: 5)]
        try await file.write(written, alive: Self.start + .seconds(6), isEnd: false)
        #expect(try await Self.stored(in: file, from: Self.start, of: ["internet"]) == written)
        #expect(try await Self.stored(in: file, from: Self.start + .seconds(3), of: ["internet"]) == written)
        #expect(try await Self.stored(in: file, from: Self.start + .seconds(9), of: ["internet"]) == [written[1]])
        #expect(try await Self.stored(in: file, from: Self.start, of: ["nas.local"]).isEmpty)
    }

    @Test func aFileOfTheFirstVersionIsTakenOver() async throws {
        let directory = try TemporaryFolder()
        do {
            let file = try HistoryFile(directory: directory.history, started: Self.start)
            try await file.write([Self.observation(.satisfied, at: 0, kind: .baseline)], alive: Self.start, isEnd: true)
        }
        try await DatabaseQueue(path: directory.file).write { db in
            try db.execute(sql: "ALTER TABLE observations DROP COLUMN losses; PRAGMA user_version = 1")
        }
        #expect(try HistoryFile.observations(in: directory.history, from: nil).map(\.kind) == [.baseline, .end])
        let file = try HistoryFile(directory: directory.history, started: Self.start + .seconds(60))
        let added = Self.observation(.unsatisfied, at: 61)
        try await file.write([added], alive: Self.start + .seconds(62), isEnd: false)
        #expect(try await Self.stored(in: file, from: .zero, of: ["internet"]).last == added)
    }

    @Test func aChildThatHasNotBegunHoldsNoLock() throws {
        let directory = try TemporaryFolder()
        var file: HistoryFile? = try HistoryFile(directory: directory.history, started: Self.start)
        let descriptor = try #require(openFiles().first { $0.value == directory.file + "-lock" }?.key)
        // As after fork(2).
        let copy = dup(descriptor)
        defer { close(copy) }
        #expect(throws: CommandFailure.self) { try HistoryFile(directory: directory.history, started: Self.start) }
        file = nil
        file = try HistoryFile(directory: directory.history, started: Self.start)
        _ = file
    }

    @Test func filesAreTheUsersAlone() throws {
        let directory = try TemporaryFolder()
        let old = umask(0o077)
        defer { umask(old) }
        _ = try HistoryFile(directory: directory.history, started: Self.start)
        let (manager, mode) = (FileManager.default, FileAttributeKey.posixPermissions)
        #expect(try manager.attributesOfItem(atPath: directory.history)[mode] as? Int == 0o700)
        #expect(try manager.attributesOfItem(atPath: directory.file)[mode] as? Int == 0o600)
    }

    @Test func theTimeWithoutAServiceIsUnknown() async throws {
        let directory = try TemporaryFolder()
        func open(at seconds: Int64) -> History {
            History(
                [.internet],
                opening: { () throws(CommandFailure) in
                    try HistoryFile(directory: directory.history, started: Self.start + .seconds(seconds))
                },
                report: { Issue.record("\($0)") })
        }
        do {
            let killed = open(at: 0)
            await killed.add(Self.observation(.satisfied, at: 0, kind: .baseline))
            await killed.write(now: Self.start + .seconds(60))
        }
        do {
            let ended = open(at: 100)
            await ended.add(Self.observation(.unsatisfied, at: 100, kind: .baseline))
            await ended.write(now: Self.start + .seconds(120))
            await ended.write(now: Self.start + .seconds(130), isEnd: true)
        }
        let present = open(at: 200)
        await present.add(Self.observation(.satisfied, at: 200, kind: .baseline))
        await present.write(now: Self.start + .seconds(201))
        #expect(
            await Self.statuses(present, from: 0, until: 300) == [
                "satisfied 60", "unknown 40", "unsatisfied 30", "unknown 70", "satisfied 100",
            ])
        // The state at the beginning of a period is that of an earlier observation.
        #expect(await Self.statuses(present, from: 30, until: 50) == ["satisfied 20"])
        #expect(await Self.statuses(present, from: 70, until: 90) == ["unknown 20"])
    }

    @Test func pruningKeepsTheLastStateOfEachScope() async throws {
        let directory = try TemporaryFolder()
        let file = try HistoryFile(directory: directory.history, started: Self.start)
        let observations = (0..<2500).map { Self.observation($0 % 2 == 0 ? .satisfied : .unsatisfied, at: $0) }
        let other = Self.observation(.satisfied, at: -10, scope: "nas.local", kind: .baseline)
        try await file.write([other] + observations, alive: Self.start, isEnd: false)
        try await file.prune(before: Self.start + .seconds(2000), keeping: 10_000)
        let left = try await Self.stored(in: file, from: .zero, of: ["internet"])
        #expect(left.first == observations[1999] && left.count == 501)
        #expect(try await Self.stored(in: file, from: .zero, of: ["nas.local"]) == [other])
        try await file.prune(before: Self.start, keeping: 100)
        #expect(try await Self.stored(in: file, from: .zero, of: ["internet"]) == Array(observations.suffix(100)))
    }

    @Test func runsWithoutObservationsArePruned() async throws {
        let directory = try TemporaryFolder()
        for seconds in 0..<3 { _ = try HistoryFile(directory: directory.history, started: Self.start + .seconds(seconds)) }
        let file = try HistoryFile(directory: directory.history, started: Self.start + .seconds(100))
        try await file.prune(before: Self.start + .seconds(200), keeping: 100)
        let runs = try await DatabaseQueue(path: directory.file).read { try Int.fetchOne($0, sql: "SELECT count(*) FROM runs") }
        #expect(runs == 1)
    }

    @Test func reportsReadItMeanwhile() async throws {
        let directory = try TemporaryFolder()
        #expect(throws: CommandFailure.self) { try HistoryFile.observations(in: directory.history, from: nil) }
        let first = try HistoryFile(directory: directory.history, started: Self.start)
        try await first.write([Self.observation(.satisfied, at: 0, kind: .baseline)], alive: Self.start + .seconds(9), isEnd: true)
        // A write behind the end changes nothing.
        try await first.write([], alive: Self.start + .seconds(10), isEnd: false)
        let read = try HistoryFile.observations(in: directory.history, from: nil)
        #expect(read.map(\.kind) == [.baseline, .end] && read.last?.time == Self.start + .seconds(9))
        var report = Report()
        for observation in read { report.add(observation) }
        #expect(report.finish().first?.sums.online == .seconds(9))
        withExtendedLifetime(first) {}
    }

    @Test func aSecondServiceIsRefused() throws {
        let directory = try TemporaryFolder()
        let first = try HistoryFile(directory: directory.history, started: Self.start)
        let failure = #expect(throws: CommandFailure.self) { try HistoryFile(directory: directory.history, started: Self.start) }
        #expect(failure?.status == .cannotCreate && failure?.message.contains("another service") == true)
        withExtendedLifetime(first) {}
    }

    @Test func filesOfOthersAreRefused() throws {
        func refusal(_ prepare: (String) throws -> Void) throws -> CommandFailure? {
            let directory = try TemporaryFolder()
            try directory.makeFolder("history")
            try prepare(directory.file)
            let before = try? Data(contentsOf: URL(fileURLWithPath: directory.file))
            let failure = #expect(throws: CommandFailure.self) {
                try HistoryFile(directory: directory.history, started: Self.start)
            }
            #expect(failure?.message.contains("next: ") == true)
            #expect((try? Data(contentsOf: URL(fileURLWithPath: directory.file))) == before)
            return failure
        }
        let foreign = try refusal { path in
            try DatabaseQueue(path: path).write { try $0.execute(sql: "CREATE TABLE t (x)") }
            chmod(path, 0o600)
        }
        #expect(foreign?.status == .invalidData)
        let text = try refusal { path in
            try Data("not a database, but long enough to be mistaken for one".utf8).write(to: URL(fileURLWithPath: path))
            chmod(path, 0o600)
        }
        #expect(text?.status == .invalidData)
        let newer = try refusal { path in
            _ = try HistoryFile(directory: String(path.dropLast("/history.db".count)), started: Self.start)
            try DatabaseQueue(path: path).writeWithoutTransaction { try $0.execute(sql: "PRAGMA user_version = 99") }
        }
        #expect(newer?.status == .invalidData && newer?.message.contains("99") == true)
        let writable = try refusal { path in
            #expect(FileManager.default.createFile(atPath: path, contents: nil))
            chmod(path, 0o666)
        }
        #expect(writable?.status == .notPermitted)
    }
}
#endif
