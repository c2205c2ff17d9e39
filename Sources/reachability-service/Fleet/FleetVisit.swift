import CommandKit
import Logging
import Reachability
import ReachableFleet

/// An observer of a fleet for the time of one command, with the monitor that tells when connecting makes sense.
struct FleetVisit: Sendable {
    let member: FleetMember
    let monitor: ReachabilityMonitor
    /// The broker in messages.
    let broker: String
    /// The destination of the broker; `nil` if it needs no network.
    let scope: Scope?
    /// Has an element when the picture may have changed, or a connection has failed.
    private let news: AsyncStream<Void>
    private let tell: AsyncStream<Void>.Continuation

    /// Creates it.
    ///
    /// - Parameters:
    ///   - say: Takes the failures of connections, each once until it is another one.
    ///   - saysAll: False to leave out those that may end without a person.
    ///   - make: Makes the member of a configuration.
    init(
        monitor: ReachabilityMonitor, broker: String, scope: Scope?, say: (@Sendable (String) -> Void)? = nil, saysAll: Bool = true,
        make: (FleetMember.Configuration) throws(CommandFailure) -> FleetMember
    ) throws(CommandFailure) {
        let (news, tell) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        var configuration = FleetMember.Configuration()
        let least = saysAll ? Logger.Level.warning : .error
        configuration.logger = FleetLog.logger { level, text in
            if level >= least { say?(text) }
            tell.yield()
        }
        (self.monitor, self.broker, self.scope, self.news, self.tell) = (monitor, broker, scope, news, tell)
        monitor.expectRun()
        member = try make(configuration)
    }

    /// Creates an observer of a place.
    init(
        _ place: FleetPlace, monitor: ReachabilityMonitor = ReachabilityMonitor(), say: (@Sendable (String) -> Void)? = nil,
        saysAll: Bool = true
    ) throws(CommandFailure) {
        try self.init(monitor: monitor, broker: "\(place.broker)", scope: place.broker.scope, say: say, saysAll: saysAll) {
            configuration throws(CommandFailure) in try place.member(monitor: monitor, configuration: configuration)
        }
    }

    /// Runs the observer and the monitor while a body runs, and ends the connection in order.
    func run<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        // Subscribed before the member runs.
        let changes = member.changes
        let result = await withTaskGroup(of: Void.self) { group in
            group.addTask { [monitor] in try? await monitor.run() }
            group.addTask { [member] in await member.run() }
            group.addTask { [tell] in for await _ in changes { tell.yield() } }
            let result: Result<Value, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            group.cancelAll()
            return result
        }
        return try result.get()
    }

    /// Waits until the picture is current; throws if only a person can end the failure, or after a time limit.
    func picture(within limit: Duration, clock: any Clock<Duration> = ContinuousClock()) async throws -> FleetPicture {
        let site = member.site
        let answer = await withTaskGroup(of: Result<FleetPicture, CommandFailure>?.self) { group in
            group.addTask { [news, member] in
                for await _ in news {
                    let picture = member.nodes
                    if picture.isCurrent { return .success(picture) }
                    if let failure = member.lastFailure, failure.needsPerson { return .failure(CommandFailure(failure, of: site)) }
                }
                return nil
            }
            group.addTask {
                try? await clock.sleep(for: limit)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
        switch answer {
        case .success(let picture): return picture
        case .failure(let failure): throw failure
        case nil: throw CommandFailure(.unknown, "the site \(site) is unknown for \(durationText(limit)): \(obstacle)")
        }
    }

    /// The reason why the picture is unknown, and the remedy.
    var obstacle: String {
        if let scope, let path = monitor.lastPaths(to: [scope]).first, path.status == .unsatisfied {
            return "the broker \(broker) is out of reach: \(ForeignText(path.summary).terminal); "
                + "next: reachability-watch explain --to \(scope.host ?? "\(scope)")"
        }
        if let failure = member.lastFailure { return "\(failure)" }
        return "the broker \(broker) has not answered; next: check that it runs, and its address"
    }
}
