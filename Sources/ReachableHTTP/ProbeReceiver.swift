internal import Foundation
internal import FoundationNetworking
internal import Reachability
internal import Synchronization

/// Judges the response to a probe, and reads no more of it than that takes.
final class ProbeReceiver: TaskReceiver {
    private let verdict: Mutex<ProbeVerdict>

    init(_ verdict: ProbeVerdict) { self.verdict = Mutex(verdict) }

    func receive(_ response: HTTPURLResponse?) -> PathValidation? { response.flatMap(judge) }

    func receive(_ data: Data) -> PathValidation? { verdict.withLock { $0.receive(data) } }

    /// A redirect is the verdict, or the expected answer: it is never followed.
    func redirect(_ response: HTTPURLResponse) -> PathValidation? { judge(response) ?? verdict.withLock { $0.end() } }

    // Foundation reports a redirect without a place at the end only.
    func end(_ response: HTTPURLResponse?) -> PathValidation { response.flatMap(judge) ?? verdict.withLock { $0.end() } }

    private func judge(_ response: HTTPURLResponse) -> PathValidation? {
        let location = response.value(forHTTPHeaderField: "Location").flatMap { URL(string: $0, relativeTo: response.url) }
        // A portal may name any URL, and a user may open it.
        let page = location.flatMap { $0.isHTTP ? $0.absoluteString : nil }
        return verdict.withLock { $0.begin(status: response.statusCode, location: page) }
    }
}
