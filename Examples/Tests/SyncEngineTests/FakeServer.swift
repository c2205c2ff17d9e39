import ReachabilityTesting
import SyncEngine

/// The error of a client whose server does not answer.
struct ConnectionLost: Error {}

/// A server that records requests and answers as scripted.
actor FakeServer: PhotoServer {
    /// Runs when a photo arrives; an error is the server's answer.
    typealias Act = @Sendable () async throws -> Void

    private let clock: WorldClock
    private var acts: [Act] = []
    private(set) var stored: Set<Photo> = []
    /// The attempts to store a photo, with their times in seconds.
    private(set) var attempts: [(photo: Photo, key: String, at: Double)] = []

    init(_ clock: WorldClock) { self.clock = clock }

    /// Scripts the next uploads in order; later ones are stored.
    func next(_ acts: Act...) { self.acts = acts }

    func next(_ acts: [Act]) { self.acts = acts }

    func store(_ photo: Photo, key: String, token: String) async throws {
        attempts.append((photo, key, clock.now.offset / .seconds(1)))
        if !acts.isEmpty { try await acts.removeFirst()() }
        stored.insert(photo)
    }

    /// Returns the start times of a photo's attempts.
    func times(_ name: String) -> [Double] { attempts.filter { $0.photo.name == name }.map(\.at) }
}
