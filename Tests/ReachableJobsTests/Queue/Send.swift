import Reachability
import ReachableJobs

/// A job whose options a test chooses.
struct Send: JobParameters {
    static let jobName = "send"
    var text: String
    var serialKey: String?
    var destination: String?
    var delay: Duration?
    var address: String?

    init(_ text: String, serialKey: String? = nil, destination: String? = nil, delay: Duration? = nil, address: String? = nil) {
        (self.text, self.serialKey, self.destination, self.delay, self.address) = (text, serialKey, destination, delay, address)
    }

    var options: DurableOptions {
        let scope = address.flatMap { IPAddress($0) }.map(Scope.address) ?? .internet
        return DurableOptions(to: scope, destination: destination, delay: delay, serialKey: serialKey)
    }
}
