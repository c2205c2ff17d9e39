package import Reachability

/// A source that passes on to another one what it does not change.
package protocol SourceWrapper: NetworkSource {
    associatedtype Network: NetworkSource

    var network: Network { get }
}

extension SourceWrapper {
    package func run(deliver: @escaping @Sendable (NetworkEventBatch) -> Duration?) async throws {
        try await network.run(deliver: deliver)
    }

    package func wake() { network.wake() }

    package func interfaces() throws(ReachabilityError) -> [NetworkInterface] { try network.interfaces() }

    package func routes(to queries: [RouteQuery]) -> [Result<RouteVerdict, ReachabilityError>] { network.routes(to: queries) }
}

extension SourceWrapper where Network: FilteringSource {
    package func watch(_ addresses: Set<IPAddress>) { network.watch(addresses) }
}

extension SourceWrapper where Network: HostResolving {
    package func resolve(_ host: String) { network.resolve(host) }
}
