import Glibc
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

/// The signals for a command and its descendants.
@Suite(.blocking) struct RunSupervisionTests {
    private typealias Effect = ChildSupervision.Effect

    private static let own: pid_t = 10
    private static let child: pid_t = 20

    private func supervision(onTerminal: Bool = false) -> ChildSupervision {
        var supervision = ChildSupervision(parent: Self.own, sharedGroup: onTerminal ? Self.own : nil)
        supervision.start(Self.child)
        return supervision
    }

    private func process(_ pid: pid_t, child parent: pid_t = own, group: pid_t = child, start: UInt64 = 1) -> ProcessEntry {
        ProcessEntry(identity: .init(pid: pid, start: start), parent: parent, group: group)
    }

    private func end(_ status: ChildEnd.Status, by interruption: ChildEnd.Interruption? = nil) -> [Effect] {
        [.finish(ChildEnd(status: status, interruption: interruption), survivors: [])]
    }

    @Test(arguments: [.exited(0), .exited(3), .signaled(9)] as [ChildEnd.Status])
    func anExitFinishesTheAttempt(status: ChildEnd.Status) {
        var supervision = supervision()
        supervision.childEnded(30, .exited(1))
        #expect(supervision.step(nil, at: .zero) == [])
        supervision.childEnded(Self.child, status)
        #expect(!supervision.needsDescendants)
        #expect(supervision.step(nil, at: .zero) == end(status))
        #expect(supervision.nextStep(after: .zero) == nil)
    }

    @Test func withoutACommandASignalExits() {
        var supervision = ChildSupervision(parent: Self.own, sharedGroup: nil)
        #expect(supervision.take(SIGTERM, isFromTerminal: false, at: .zero) == [.exit(143)])
        #expect(supervision.cut(at: .zero) == [])
    }

    /// Of many signals some may be handled after the command's end: they do not replace its code.
    @Test(arguments: [(.exited(7), 7), (.exited(0), 0), (.signaled(SIGKILL), 137)] as [(ChildEnd.Status, Int32)])
    func aSignalAfterTheEndThatASignalCausedExitsWithTheCommandsCode(status: ChildEnd.Status, code: Int32) {
        var supervision = supervision()
        _ = supervision.take(SIGTERM, isFromTerminal: false, at: .zero)
        supervision.childEnded(Self.child, status)
        #expect(supervision.step([], at: .zero) == end(status, by: .signal))
        #expect(supervision.take(SIGTERM, isFromTerminal: false, at: .zero) == [.exit(code)])
        #expect(supervision.nextStep(after: .zero) == nil && !supervision.needsDescendants)
        // The next command, for example one that reports the end, is one like others.
        supervision.start(Self.child)
        supervision.childEnded(Self.child, .exited(0))
        #expect(supervision.step(nil, at: .zero) == end(.exited(0)))
        #expect(supervision.take(SIGINT, isFromTerminal: false, at: .zero) == [.exit(130)])
    }

    @Test func aTimeLimitSendsTermThenKill() {
        var supervision = supervision()
        let (inside, outside) = (process(21, child: 20), process(22, child: 21, group: 22))
        let all = [process(20), inside, outside]
        #expect(supervision.cut(at: .seconds(1)) == [.sendToGroup(SIGTERM, 20)])
        #expect(supervision.step(all, at: .seconds(1)) == [.send(SIGTERM, to: 22)])
        #expect(supervision.step(all, at: .seconds(2)) == [])
        supervision.childEnded(20, .exited(0))
        #expect(supervision.step([inside, outside], at: .seconds(5)) == [])
        #expect(supervision.nextStep(after: .milliseconds(5950)) == .seconds(6))
        #expect(
            supervision.step([inside, outside], at: .seconds(6)) == [
                .sendToGroup(SIGKILL, 20), .send(SIGKILL, to: 21), .send(SIGKILL, to: 22),
            ])
        #expect(supervision.step([outside], at: .seconds(7)) == [.send(SIGKILL, to: 22)])
        #expect(supervision.step([], at: .seconds(8)) == end(.exited(0), by: .timeLimit))
    }

    @Test func laterProcessesGetTermOnlyAsOrphans() {
        var supervision = supervision()
        _ = supervision.cut(at: .zero)
        #expect(supervision.step([process(20)], at: .zero) == [])
        let helper = process(21, child: 20)
        #expect(supervision.step([process(20), helper], at: .seconds(1)) == [])
        supervision.childEnded(20, .exited(1))
        #expect(supervision.step([process(21)], at: .seconds(2)) == [.send(SIGTERM, to: 21)])
        // Another process with the same number.
        #expect(supervision.step([process(21, start: 2)], at: .seconds(3)) == [.send(SIGTERM, to: 21)])
    }

    @Test func signalsAreForwardedToTheGroup() {
        var supervision = supervision()
        let (inside, outside) = (process(21, child: 20), process(22, child: 20, group: 22))
        #expect(supervision.take(SIGHUP, isFromTerminal: false, at: .zero) == [.sendToGroup(SIGHUP, 20)])
        #expect(supervision.step([process(20), inside, outside], at: .zero) == [.send(SIGTERM, to: 22)])
        #expect(supervision.take(SIGINT, isFromTerminal: false, at: .zero) == [.sendToGroup(SIGINT, 20)])
        supervision.childEnded(20, .exited(7))
        #expect(supervision.step([inside], at: .seconds(1)) == [.send(SIGTERM, to: 21)])
        #expect(supervision.take(SIGINT, isFromTerminal: false, at: .seconds(2)) == [])
        #expect(supervision.step([], at: .seconds(2)) == end(.exited(7), by: .signal))
    }

    @Test func onATerminalSignalsReachTheDescendants() {
        var supervision = supervision(onTerminal: true)
        let all = [process(20, group: 10), process(21, child: 20, group: 10), process(22, child: 20, group: 22)]
        #expect(supervision.take(SIGINT, isFromTerminal: false, at: .zero) == [.send(SIGINT, to: 20)])
        #expect(supervision.step(all, at: .zero) == [.send(SIGINT, to: 21), .send(SIGTERM, to: 22)])
        #expect(supervision.step(all, at: .seconds(5)) == all.map { .send(SIGKILL, to: $0.pid) })
    }

    @Test func ctrlCIsNotForwarded() {
        var supervision = supervision(onTerminal: true)
        #expect(supervision.take(SIGINT, isFromTerminal: true, at: .zero) == [])
        #expect(supervision.nextStep(after: .zero) == nil, "the command has all the time that it wants")
        supervision.childEnded(20, .signaled(SIGINT))
        #expect(supervision.needsDescendants)
        #expect(supervision.step([process(21, group: 10)], at: .seconds(60)) == [.send(SIGTERM, to: 21)])
        #expect(supervision.step([], at: .seconds(61)) == end(.signaled(SIGINT), by: .signal))
    }

    @Test func aHandledCtrlCSparesTheDescendants() {
        var supervision = supervision(onTerminal: true)
        _ = supervision.take(SIGINT, isFromTerminal: true, at: .zero)
        supervision.childEnded(20, .exited(0))
        #expect(supervision.step([process(21, group: 10)], at: .zero) == end(.exited(0), by: .signal))
    }

    @Test func aHangupIsForwarded() {
        var supervision = supervision(onTerminal: true)
        #expect(supervision.take(SIGHUP, isFromTerminal: true, at: .zero) == [.send(SIGHUP, to: 20)])
    }

    @Test func withoutATerminalKernelSignalsAreForwarded() {
        var supervision = supervision()
        #expect(supervision.take(SIGHUP, isFromTerminal: true, at: .zero) == [.sendToGroup(SIGHUP, 20)])
    }

    @Test func onATerminalRunStopsWithItsCommand() {
        var supervision = supervision(onTerminal: true)
        supervision.childStopped(30, at: .zero)
        #expect(supervision.nextStep(after: .zero) == nil)
        supervision.childStopped(20, at: .zero)
        #expect(supervision.nextStep(after: .zero) == .milliseconds(100))
        #expect(supervision.step(nil, at: .milliseconds(99)) == [])
        #expect(supervision.step(nil, at: .milliseconds(100)) == [.stop(with: 20)])
        #expect(supervision.step(nil, at: .seconds(9)) == [])
    }

    @Test func aFinishedStopHasNoEffect() {
        var supervision = supervision(onTerminal: true)
        supervision.childStopped(20, at: .zero)
        supervision.childContinued(20)
        #expect(supervision.nextStep(after: .zero) == nil && supervision.step(nil, at: .seconds(1)) == [])
    }

    @Test func aStopSeenLateIsTimedAgain() {
        var supervision = supervision(onTerminal: true)
        supervision.childStopped(20, at: .zero)
        #expect(supervision.step(nil, at: .seconds(60)) == [])
        #expect(supervision.nextStep(after: .seconds(60)) == .milliseconds(60_100))
        #expect(supervision.step(nil, at: .milliseconds(60_100)) == [.stop(with: 20)])
    }

    @Test func withoutATerminalRunDoesNotStop() {
        var supervision = supervision()
        supervision.childStopped(20, at: .zero)
        #expect(supervision.step(nil, at: .milliseconds(100)) == [])
    }

    @Test func unkillableProcessesAreLeft() {
        var supervision = supervision()
        _ = supervision.cut(at: .zero)
        #expect(supervision.step([process(20)], at: .milliseconds(9999)).contains(.send(SIGKILL, to: 20)))
        let end = ChildEnd(status: .signaled(SIGKILL), interruption: .timeLimit)
        #expect(supervision.step([process(20)], at: .seconds(10)) == [.finish(end, survivors: [20])])
        supervision.start(23)
        supervision.childEnded(20, .signaled(SIGKILL))
        #expect(supervision.step(nil, at: .seconds(11)) == [])
    }

    @Test func withoutProcOnlyTheGroupIsSignalled() {
        var supervision = supervision()
        #expect(supervision.cut(at: .zero) == [.sendToGroup(SIGTERM, 20)])
        #expect(supervision.step(nil, at: .seconds(1)) == [])
        #expect(supervision.step(nil, at: .seconds(5)) == [.sendToGroup(SIGKILL, 20), .send(SIGKILL, to: 20)])
        supervision.childEnded(20, .signaled(SIGKILL))
        #expect(supervision.step(nil, at: .seconds(6)) == end(.signaled(SIGKILL), by: .timeLimit))
    }

    // MARK: Processes

    /// A line of /proc/PID/stat.
    private static func stat(_ pid: Int, _ name: String, _ state: String, threads: Int = 1) -> [UInt8] {
        Array("\(pid) (\(name)) \(state) 1 2 3 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 \(threads) 0 4711 0 0 18446744073709551615\n".utf8)
    }

    @Test(arguments: ["sh", "a b", ") S 7 (", "", ")))", "ÿ"]) func parsesProcessesOfAnyName(name: String) throws {
        let entry = try #require(ProcessEntry(stat: Self.stat(42, name, "S")))
        #expect(entry == ProcessEntry(identity: .init(pid: 42, start: 4711), parent: 1, group: 2))
    }

    @Test func aZombieHasNoOtherThread() throws {
        #expect(try #require(ProcessEntry(stat: Self.stat(1, "x", "Z"))).isZombie)
        #expect(try !#require(ProcessEntry(stat: Self.stat(1, "x", "Z", threads: 2))).isZombie)
    }

    @Test(arguments: ["", "1", "1 (x)", "1 (x) S 1 2", "x (x) S", ")", "1 )"]) func rejectsOtherLines(line: String) {
        #expect(ProcessEntry(stat: Array(line.utf8)) == nil)
        #expect(ProcessEntry(stat: Self.stat(42, "x", "S").prefix(40)) == nil)
    }

    @Test func findsDescendantsOfEveryDegree() {
        var zombie = process(23, child: 10)
        zombie.isZombie = true
        let all = [
            process(1, child: 0), process(10, child: 1), process(20, child: 10), process(21, child: 20), process(22, child: 21),
            zombie, process(24, child: 10), process(25, child: 24), process(30, child: 1),
            // Numbers reused while the table was being read.
            process(40, child: 41), process(41, child: 40), process(10, child: 22),
        ]
        let found = ProcessTable.descendants(of: 10, among: all, excluding: [process(24).identity])
        #expect(Set(found.map(\.pid)) == [20, 21, 22])
    }

    @Test func childrenOfThisProcessAreFound() throws {
        let process = try WatchProcess(["wait", "--interface", "no-such-cable", "--timeout", "30s"])
        #expect(try #require(ProcessTable.descendants()).contains { $0.pid == process.pid && $0.parent == getpid() })
        kill(process.pid, SIGKILL)
        _ = process.end()
    }
}

/// Commands that cannot be started.
@Suite(.blocking) struct RunFailureTests {
    private func failure(_ number: Int32, command: String = "make", file: String? = "/usr/bin/make") -> ChildFailure {
        ChildFailure(cause: .starting(Array(command.utf8), file.map { Array($0.utf8) }, number))
    }

    @Test(arguments: [EAGAIN, ENOMEM, EMFILE, ENFILE, ETXTBSY]) func aPassingShortageIsNotFinal(number: Int32) {
        let failure = failure(number)
        #expect(failure.isPassing && !failure.isFinal)
        #expect(failure.description.hasPrefix("/usr/bin/make cannot be started now: "))
    }

    @Test(
        arguments: [
            (ENOENT, "/no/such/file", 127), (ENOENT, "/etc/passwd", 126), (EACCES, "/etc/passwd", 126),
            (ENOEXEC, "/etc/passwd", 126),
            (E2BIG, "/bin/sh", 126), (ELOOP, "/bin/sh", 126),
        ] as [(Int32, String, Int32)])
    func otherErrorsAreFinal(number: Int32, file: String, code: Int32) {
        let failure = failure(number, file: file)
        #expect(failure.code == code && failure.isFinal && !failure.isPassing)
    }

    @Test func aMissingCommandIsNamedAsTyped() {
        #expect(failure(ENOENT, file: nil).description == "make was not found; next: install it, or correct the PATH")
        let bytes = ChildFailure(cause: .starting([0x66, 0xff], nil, ENOENT))
        #expect(bytes.description == #"f\xff was not found; next: install it, or correct the PATH"#)
    }

    @Test func aDirectoryIsNamedAsOne() {
        #expect(
            failure(EACCES, file: "/etc").description == "/etc cannot be executed: it is a directory; next: name a program in it")
    }
}
