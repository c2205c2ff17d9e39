import Foundation
import Reachability
import ReachableRetry

/// Writes a line for each event of a job.
struct EventPrinter {
    private let bus: RetryBus
    private let events: AsyncStream<RetryEvent>

    /// Subscribes to the events of the bus.
    init(_ bus: RetryBus) { (self.bus, events) = (bus, bus.events) }

    /// Writes until the bus is shut down.
    func run() async {
        for await event in events { write("\(event.job): \(words(event))") }
    }

    private func words(_ event: RetryEvent) -> String {
        switch event.kind {
        case .waiting: bus.pending.first { $0.id == event.job }?.reason ?? "waits"
        case .attemptStarted: "attempt \(event.attempt) starts (\(event.trigger?.rawValue ?? "first"))"
        case .attemptFailed: "attempt \(event.attempt) failed\(event.failure.map(words) ?? "")"
        case .backingOff: "backs off for \(seconds(event.delay ?? .zero))"
        case .succeeded: "done, \(seconds(event.waited)) of waiting"
        case .gaveUp: "gave up: \(event.report?.reason.rawValue ?? "")"
        default: event.kind.rawValue
        }
    }

    private func words(_ failure: RetryEvent.Failure) -> String {
        let fault =
            switch failure.fault {
            case .network: "the network's fault"
            case .server, .overload: "the server's fault"
            case .request: "for good"
            case .local: "this machine's fault"
            case .unknown: failure.mayRetry ? "a passing fault" : "for good"
            }
        return " (\(fault), \(failure.isCharged ? "charged" : "not charged")): \(failure.error)"
    }

    private func seconds(_ duration: Duration) -> String { String(format: "%.1f s", duration / .seconds(1)) }

    /// Writes a line at once, even into a pipe.
    private func write(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }
}
