import Foundation
import Glibc

/// The machine that the tests run on.
enum Machine {
    /// How many times as long as on an idle machine things may take here now: 1, or how many tasks want each processor.
    ///
    /// Limits of time are about the product; what else a machine has to do is not its fault.
    static var slowness: Int {
        var load = 0.0
        guard getloadavg(&load, 1) == 1, load.isFinite else { return 1 }
        let processors = Double(max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
        return max(1, Int((load / processors).rounded(.up)))
    }

    /// A user other than this process's; in a user namespace of one's own there is none, and it is the same.
    static let otherUser: UInt32 = {
        let map = try? String(contentsOfFile: "/proc/self/uid_map", encoding: .utf8).split(whereSeparator: \.isWhitespace)
        return map?.last.flatMap { UInt32($0) }.map { $0 > 1000 } == true ? 1000 : 0
    }()
}
