import ReachabilityTesting
import SyncEngine

/// The error of a client whose server does not answer.
struct ConnectionLost: Error {}

/// A server that records requests and answers as scripted.
actor FakeServer: PhotoServer {
    /// Runs when a photo arrives; an error is the server's answer.
    typealias Act = @Sendable () throws -> Void

    private let clock: ManualClock
    private var acts: [Act] = []
    private(set) var stored: Set<String> = []
    /// The attempts to store a photo, with their times in seconds.
    private(set) var attempts: [(name: String, at: Double)] = []
    /// The number of requests for the list of photos.
    private(set) var listings = 0

    init(_ clock: ManualClock) { self.clock = clock }

    /// Scripts the next uploads in order; later ones are stored.
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

    /// Returns the start times of a photo's attempts.
    func times(_ name: String) -> [Double] { attempts.filter { $0.name == name }.map(\.at) }
}
