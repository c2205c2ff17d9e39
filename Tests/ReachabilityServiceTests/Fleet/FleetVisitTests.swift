import CommandKit
import Reachability
import ReachabilityTesting
import ReachableFleet
import TestSupport
import Testing

@testable import reachability_service

@Suite(.timeLimit(.minutes(10)))
struct FleetVisitTests {
    private let bench: FleetWorld
    private let messages = Recorder<String>()

    init() throws { bench = try FleetWorld() }

    /// Starts to wait for the picture, at most 10 s.
    private func start(_ visit: FleetVisit) -> Rendezvous<Result<FleetPicture, CommandFailure>?> {
        bench.start { [clock = bench.world.clock] in
            do {
                return .success(try await visit.run { try await visit.picture(within: .seconds(10), clock: clock) })
            } catch let failure as CommandFailure {
                return .failure(failure)
            } catch {
                return .failure(CommandFailure(.usage, "\(error)"))
            }
        }
    }

    private func visit(refusedBy failure: FleetError, saysAll: Bool = true) throws -> FleetVisit {
        let (world, site) = (bench.world, bench.fleet.site)
        let say = { @Sendable [messages] (text: String) in messages.record(text) }
        return try FleetVisit(monitor: world.monitor, broker: "the broker", scope: nil, say: say, saysAll: saysAll) {
            configuration throws(CommandFailure) in
            do {
                return try FleetMember(
                    node: nil, site: site, transport: RefusingTransport(failure: failure), scope: nil, monitor: world.monitor,
                    bus: world.bus, configuration: configuration)
            } catch { throw CommandFailure(.usage, "\(error)") }
        }
    }

    @Test func thePictureComesWithAllNodes() async throws {
        bench.fleet.say(.online, of: bench.nas)
        let result = start(try bench.visit())
        await bench.world.clock.advance(by: .seconds(1))
        #expect(try result.value?.get().nodes.map(\.description) == ["nas online"])
        #expect(bench.fleet.storedTopics == ["reach/v1/site/nas/status"])
    }

    @Test func aBrokerThatIsAwayEndsTheVisitByTime() async throws {
        bench.fleet.stopBroker()
        let result = start(try bench.visit())
        await bench.world.clock.advance(by: .milliseconds(9999))
        #expect(result.value == nil)
        await bench.world.clock.advance(by: .milliseconds(1))
        guard case .failure(let failure) = result.value else {
            Issue.record("there is a picture")
            return
        }
        #expect(failure.status == .unknown && failure.message.hasPrefix("the site site is unknown for 10s: "))
    }

    @Test func aRefusalEndsTheVisitAtOnce() async throws {
        let refusal = FleetError(.refused, subject: "no entry; next: correct the password file")
        let result = start(try visit(refusedBy: refusal))
        await bench.world.settle()
        guard case .failure(let failure) = result.value else {
            Issue.record("the visit goes on")
            return
        }
        #expect(failure == CommandFailure(refusal, of: bench.fleet.site) && failure.status == .notPermitted)
    }

    @Test(arguments: [(FleetError.Code.unreachable, true, 1), (.unreachable, false, 0), (.refused, false, 1)])
    func eachFailureIsReportedOnce(code: FleetError.Code, saysAll: Bool, count: Int) async throws {
        let visit = try visit(refusedBy: FleetError(code, subject: "no way; next: look"), saysAll: saysAll)
        let result = start(visit)
        await bench.world.clock.advance(by: .seconds(10))
        #expect(result.value != nil)
        #expect(messages.value == Array(repeating: "no way; next: look", count: count))
    }
}
