import ReachabilityTesting
import SyncEngine

/// The other side does not answer: what a real client would throw.
struct ConnectionLost: Error {}

/// A server that notes what it is asked, and when, and does what a test tells it to.
actor FakeServer: PhotoServer {
    /// What happens when a photo arrives; an error is what the client gets.
    typealias Act = @Sendable () throws -> Void

    private let clock: ManualClock
    private var acts: [Act] = []
    private(set) var stored: Set<String> = []
    /// All attempts to store something: what, and when, in seconds.
    private(set) var attempts: [(name: String, at: Double)] = []
    /// How often it was asked what it has.
    private(set) var listings = 0

    init(_ clock: ManualClock) { self.clock = clock }

    /// Has this happen when the next photos arrive, one after the other; those after them are stored.
    func next(_ acts: Act...) { self.acts = acts }

    func next(_ acts: [Act]) { self.acts = acts }

    func put(_ name: String) { stored.insert(name) }

    func names(token: String) -> Set<String> {
        listings += 1
        return stored
    }

    func store(_ photo: Photo, token: String) throws {
        attempts.append((photo.name, clock.now.offset / .seconds(1)))
        if !acts.isEmpty { try acts.removeFirst()() }
        stored.insert(photo.name)
    }

    /// When a photo's attempts began.
    func times(_ name: String) -> [Double] { attempts.filter { $0.name == name }.map(\.at) }
}
