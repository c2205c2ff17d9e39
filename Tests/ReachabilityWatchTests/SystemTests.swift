import Glibc
import Reachability
import TestSupport
import Testing

@testable import CommandKit
@testable import reachability_watch

struct DescriptorOutputTests {
    @Test func aLineIsWrittenAtOnce() throws {
        let pipe = try Pipe()
        try DescriptorOutput(descriptor: pipe.writeEnd).write("grün")
        #expect(pipe.available() == "grün\n")
    }

    /// A pipe holds 64 KiB (pipe(7)): the rest waits for room, here on a non-blocking descriptor.
    @Test(.blocking) func longLinesWaitForANonBlockingPipe() async throws {
        let pipe = try Pipe()
        #expect(fcntl(pipe.writeEnd, F_SETFL, O_NONBLOCK) == 0)
        let line = String(repeating: "x", count: 300_000)
        async let text = pipe.readLine()
        try DescriptorOutput(descriptor: pipe.writeEnd).write(line)
        #expect(await text == line)
    }

    @Test func aMissingReaderIsNoError() throws {
        signal(SIGPIPE, SIG_IGN)
        var ends: [Int32] = [0, 0]
        try #require(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
        defer { for end in ends { close(end) } }
        // Also for children of other tests that have not executed their program yet, and so have a copy.
        shutdown(ends[0], Int32(SHUT_RD))
        #expect(throws: OutputFailure.readerGone) { try DescriptorOutput(descriptor: ends[1]).write("x") }
        #expect(throws: OutputFailure.refused(errno: EBADF)) { try DescriptorOutput(descriptor: -1).write("x") }
        let full = open("/dev/full", O_WRONLY)
        defer { close(full) }
        #expect(throws: OutputFailure.refused(errno: ENOSPC)) { try DescriptorOutput(descriptor: full).write("x") }
    }
}

struct StartConditionsTests {
    @Test func procIsCheckedFirst() {
        let problem = StartConditions.problem(hasProc: false, descriptors: (0, EMFILE))
        #expect(problem?.0.contains("/proc is not mounted") == true && problem?.1 == .unavailable)
    }

    @Test(
        arguments: [
            (0, EMFILE, "only 0 file descriptors are free, and 20 are needed; next: raise the limit, e.g. `ulimit -n 64`"),
            (1, EMFILE, "only 1 file descriptor is free"), (19, ENFILE, "raise the machine's limit"),
            (3, ENOMEM, "free resources (Cannot allocate memory)"),
        ] as [(Int, Int32, String)])
    func missingDescriptorsAreCounted(_ free: Int, _ errno: Int32, _ text: String) {
        let problem = StartConditions.problem(hasProc: true, descriptors: (free, errno))
        #expect(problem?.0.contains(text) == true && problem?.1 == .unknown)
    }

    @Test func aCompleteSystemHasNoProblem() {
        #expect(StartConditions.problem(hasProc: true, descriptors: (StartConditions.neededDescriptors, nil)) == nil)
    }
}

struct ExitStatusTests {
    @Test(
        arguments: [
            (ReachabilityError.Code.netlinkUnavailable, 69), (.permissionDenied, 77), (.namespaceUnavailable, 64),
            (.requestFailed, 2), (.invalidRecording, 65), (.fileFailed, 66),
            (.alreadyRun, 2), (.ended, 2), (.init(rawValue: "new"), 2),
        ] as [(ReachabilityError.Code, Int32)])
    func everyErrorHasAStatus(_ code: ReachabilityError.Code, _ expected: Int32) {
        #expect(ExitStatus(ReachabilityError(code, operation: "test")).rawValue == expected)
    }

    @Test func yesRequiresEveryScope() {
        #expect(ExitStatus([Samples.online(), Samples.online()]) == .yes)
        #expect(ExitStatus([Samples.online(), Samples.offline()]) == .no)
        #expect(ExitStatus([Samples.online(), .unknown]) == .unknown)
        #expect(ExitStatus([.unknown, Samples.offline()]) == .no)
    }
}
