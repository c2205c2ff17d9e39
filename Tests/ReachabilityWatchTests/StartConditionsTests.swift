import Glibc
import Testing

@testable import reachability_watch

struct StartConditionsTests {
    @Test func asksForProcFirst() {
        let complaint = StartConditions.complaint(hasProc: false, descriptors: (0, EMFILE))
        #expect(complaint?.0.contains("/proc is not mounted") == true && complaint?.1 == .unavailable)
    }

    @Test(
        arguments: [
            (0, EMFILE, "only 0 file descriptors are free, and 20 are needed; next: raise the limit, e.g. `ulimit -n 64`"),
            (1, EMFILE, "only 1 file descriptor is free"), (19, ENFILE, "raise the machine's limit"),
            (3, ENOMEM, "make room (Cannot allocate memory)"),
        ] as [(Int, Int32, String)])
    func saysHowManyDescriptorsAreMissing(_ free: Int, _ errno: Int32, _ text: String) {
        let complaint = StartConditions.complaint(hasProc: true, descriptors: (free, errno))
        #expect(complaint?.0.contains(text) == true && complaint?.1 == .unknown)
    }

    @Test func isSilentWhenAllIsThere() {
        #expect(StartConditions.complaint(hasProc: true, descriptors: (StartConditions.neededDescriptors, nil)) == nil)
    }
}
