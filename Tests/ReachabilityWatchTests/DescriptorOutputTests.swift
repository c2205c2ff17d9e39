import Glibc
import Testing

@testable import reachability_watch

struct DescriptorOutputTests {
    @Test func writesALineAtOnce() throws {
        let pipe = try Pipe()
        try DescriptorOutput(descriptor: pipe.writeEnd).write("grün")
        #expect(pipe.available() == "grün\n")
    }

    /// A pipe holds 64 KiB (pipe(7)): the rest must wait for room, here on a descriptor that refuses to wait.
    @Test func writesMoreThanAPipeHoldsToANonBlockingDescriptor() async throws {
        let pipe = try Pipe()
        #expect(fcntl(pipe.writeEnd, F_SETFL, O_NONBLOCK) == 0)
        let line = String(repeating: "x", count: 300_000)
        async let text = pipe.readLine()
        try DescriptorOutput(descriptor: pipe.writeEnd).write(line)
        #expect(await text == line)
    }

    @Test func tellsAReaderThatLeftFromAnError() throws {
        signal(SIGPIPE, SIG_IGN)
        let pipe = try Pipe()
        pipe.closeReadEnd()
        #expect(throws: OutputFailure.readerGone) { try DescriptorOutput(descriptor: pipe.writeEnd).write("x") }
        #expect(throws: OutputFailure.refused(errno: EBADF)) { try DescriptorOutput(descriptor: -1).write("x") }
        let full = open("/dev/full", O_WRONLY)
        defer { close(full) }
        #expect(throws: OutputFailure.refused(errno: ENOSPC)) { try DescriptorOutput(descriptor: full).write("x") }
    }
}
