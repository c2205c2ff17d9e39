import Glibc
import Testing

@testable import reachability_watch

/// Commands that cannot be started.
struct RunFailureTests {
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

    @Test func aMissingCommandIsNamedAsItWasTyped() {
        #expect(failure(ENOENT, file: nil).description == "make was not found; is it installed, and on the PATH?")
        let bytes = ChildFailure(cause: .starting([0x66, 0xff], nil, ENOENT))
        #expect(bytes.description == #"f\xff was not found; is it installed, and on the PATH?"#)
    }

    @Test func aFolderIsCalledOne() {
        #expect(failure(EACCES, file: "/etc").description == "/etc cannot be executed: it is a folder")
    }
}
