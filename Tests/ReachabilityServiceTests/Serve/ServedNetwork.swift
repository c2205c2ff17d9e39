#if Service
import CommandKit
import Glibc
import Reachability
import ReachabilityTesting
import Synchronization
import Testing

@testable import reachability_service

/// A service of this process on a simulated network.
final class ServedNetwork: Sendable {
    let network: SimulatedNetwork
    let session: ServeSession
    /// The place where it listens, as announced.
    let url: String
    private let interrupt: AsyncStream<Int32>.Continuation

    private init(_ network: SimulatedNetwork, _ session: ServeSession, url: String, _ interrupt: AsyncStream<Int32>.Continuation) {
        (self.network, self.session, self.url, self.interrupt) = (network, session, url, interrupt)
    }

    /// Serves while the body runs.
    ///
    /// - Parameter listen: The place; by default a port of 127.0.0.1 that is free.
    static func serving(
        _ network: SimulatedNetwork = .online(), scopes: [Scope] = [.internet], listen: String = "127.0.0.1:0",
        maxConnections: Int = 512, maxReaders: Int = 256, notifier: ServiceNotifier? = nil,
        _ body: (ServedNetwork) async throws -> Void
    ) async throws {
        let clock = ServiceClock(
            wallTime: { SimulatedNetwork.startOfTime + network.clock.now.offset },
            bootTime: { BootInstant(sinceBoot: network.clock.now.offset) })
        let history = History(scopes, opening: nil, report: { Issue.record("\($0)") })
        let session = ServeSession(
            ReachabilityMonitor(network), scopes: scopes, history: history, maxReaders: maxReaders, notifier: notifier,
            clock: clock)
        let (messages, message) = AsyncStream.makeStream(of: String.self)
        let (interruption, interrupt) = AsyncStream.makeStream(of: Int32.self)
        let service = RunningService(
            session: session, address: try ListenAddress(listen), maxConnections: maxConnections, say: { message.yield($0) })
        let running = Task {
            defer { message.finish() }
            return await service.run(until: interruption)
        }
        for await text in messages where text.hasPrefix("serving on ") {
            let served = ServedNetwork(network, session, url: String(text.dropFirst("serving on ".count)), interrupt)
            do {
                try await body(served)
            } catch {
                interrupt.yield(SIGTERM)
                _ = await running.value
                throw error
            }
            break
        }
        interrupt.yield(SIGTERM)
        let end = await running.value
        guard case .interrupted = end else {
            Issue.record("the service failed: \(end)")
            return
        }
    }

    /// Ends the service.
    func stop() { interrupt.yield(SIGTERM) }

    /// Opens a connection.
    func connect(receiveBuffer: Int32? = nil) throws -> ServiceConnection {
        try ServiceConnection(to: url, receiveBuffer: receiveBuffer)
    }

    /// Pulls the cable, and lets the time pass after which a loss is published.
    func pull() throws {
        try network.pull("eth0")
        network.clock.advance(by: .milliseconds(300))
    }

    func plug() throws { try network.plug("eth0") }
}
#endif
