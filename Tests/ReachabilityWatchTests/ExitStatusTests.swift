import Reachability
import Testing

@testable import reachability_watch

struct ExitStatusTests {
    @Test(
        arguments: [
            (ReachabilityError.Code.netlinkUnavailable, 69), (.permissionDenied, 77), (.namespaceUnavailable, 64),
            (.requestFailed, 2), (.invalidRecording, 65), (.fileFailed, 66),
            (.alreadyRun, 2), (.ended, 2), (.init(rawValue: "new"), 2),
        ] as [(ReachabilityError.Code, Int32)])
    func tellsErrorsApart(_ code: ReachabilityError.Code, _ expected: Int32) {
        #expect(ExitStatus(ReachabilityError(code, operation: "test")).rawValue == expected)
    }

    @Test func saysYesOnlyIfEverythingIsSatisfied() {
        #expect(ExitStatus([Samples.online(), Samples.online()]) == .yes)
        #expect(ExitStatus([Samples.online(), Samples.offline()]) == .no)
        #expect(ExitStatus([Samples.online(), .unknown]) == .unknown)
        #expect(ExitStatus([.unknown, Samples.offline()]) == .no)
    }
}
