import Foundation
import FoundationNetworking
import Reachability
import ReachableFleet
import ReachableHTTP
import ReachableRetry
import ServiceLifecycle

/// A kiosk: it sends a report every hour, and tries at once when an operator asks.
struct Kiosk: Service {
    let name: FleetName
    let member: FleetMember
    let bus: RetryBus
    let server: URL

    init(_ name: FleetName, _ chain: Chain, server: URL, _ monitor: ReachabilityMonitor) throws {
        member = try chain.member(name, monitor)
        var configuration = RetryBus.Configuration()
        // After an outage the kiosks do not all try the server in the same instant.
        configuration.fleetSize = member.size
        bus = RetryBus(monitor, configuration: configuration)
        (self.name, self.server) = (name, server)
    }

    /// The services of the kiosk, in the order of their starts.
    var services: [any Service] { [member, bus, self] }

    func run() async throws {
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await sendReports() }
                group.addTask { await hearOperators() }
                group.addTask { await watchBroker() }
            }
        }
    }

    private func sendReports() async {
        let options = JobOptions(destination: "reports")
        let report = bus.job(.reports, to: .host(server.host() ?? ""), options: options) { _ in try await send() }
        for await event in report.repeating(every: .seconds(3600)).events {
            switch event {
            case .attemptFailed(let failure): say("\(name) failed: \(failure.error)")
            case .attemptSucceeded: say("\(name) reported")
            default: break
            }
        }
    }

    private func send() async throws {
        var request = URLRequest(url: server.appending(path: "\(name)"))
        request.httpMethod = "PUT"
        _ = try await URLSession.shared.attempt(request, from: Data("all is well".utf8))
    }

    private func hearOperators() async {
        for await trigger in member.triggers where trigger.name.description == Chain.retry {
            say("\(name) acts on \(trigger.name)")
            bus.retryNow()
        }
    }

    private func watchBroker() async {
        for await change in member.changes {
            switch change.kind {
            case .current: say("\(name) sees the fleet")
            case .unknown: say("\(name) has no broker")
            default: break
            }
        }
    }
}

extension RetryPolicy {
    /// Tries until the server has the report or refuses it: after some minutes at first, and later every hour.
    static let reports = RetryPolicy(.exponential(initial: .seconds(300), maximum: .seconds(3600)).jitter(.equal))
        .giveUpAfter(maxAttempts: nil)
        .classifyingHTTP()
}
