internal import Glibc
internal import Reachability

/// What a ``SimulatedNetwork`` knows: the model, what is to be delivered, and to whom.
struct SimulatedNetworkState: Sendable {
    typealias Deliver = @Sendable (NetworkEventBatch) -> Duration?
    typealias Parked = CheckedContinuation<Void, any Error>

    /// Somebody's call of `run`.
    struct Run: Sendable {
        let id: UInt64
        let deliver: Deliver
        /// The call, once it waits for its end.
        var parked: Parked?
        /// How it is to end, if that was decided before it waited.
        var ending: Result<Void, any Error>?
        /// Whether its first batch was delivered.
        var hasStarted = false
    }

    /// A batch without its time, which it gets when it is delivered.
    struct Letter: Sendable {
        var events: [NetworkEvent] = []
        var hasMore = false
        var spoofed = 0
        var malformed = 0
        var drops = 0
        var reopens = 0
        var receiveBuffer: Int?
    }

    var kernel: SimulatedKernel
    /// Counts the changes of the model.
    private(set) var revision: UInt64 = 0
    var run: Run?
    /// How the next run is to end, because it was stopped before it began.
    var nextEnding: Result<Void, any Error>?
    /// Those who wait for a run's first batch.
    var starters: [UInt64: Parked] = [:]
    /// The thread that delivers.
    var deliverer: pthread_t?
    /// What tells the model that its time has come.
    var modelTimer: ManualClock.Timer?
    var lookups = 0
    var dumps = 0
    /// What name servers know.
    var hosts: [String: [IPAddress]] = [:]
    var nameServers = SimulatedNetwork.NameServers.answers
    /// The lookups that no name server has answered yet, and when each is given up.
    var unanswered: [String: ManualClock.Timer] = [:]
    var hostLookups = 0
    var failures: (count: Int, errno: Int32) = (0, 0)
    /// The number of dumps that will be interrupted.
    var interruptions = 0
    private var letters: [Letter] = []
    /// Whether an empty batch was asked for.
    private var wantsTick = false
    private var lastID: UInt64 = 0

    init(kernel: SimulatedKernel) {
        self.kernel = kernel
        _ = self.kernel.takeEvents()
    }

    mutating func makeID() -> UInt64 {
        lastID += 1
        return lastID
    }

    /// Replaces the model, unless it changed since it was read.
    mutating func commit(_ kernel: SimulatedKernel, since revision: UInt64, _ letter: Letter?) -> Bool {
        guard revision == self.revision else { return false }
        self.kernel = kernel
        self.revision += 1
        if let letter { post(letter) }
        return true
    }

    /// Queues a batch if anybody is there to get it.
    mutating func post(_ letter: Letter) {
        if isListening { letters.append(letter) }
    }

    mutating func postTick() { wantsTick = isListening }

    var hasMail: Bool { isListening && (!letters.isEmpty || wantsTick) }

    private var isListening: Bool { run != nil && run?.ending == nil }

    /// Takes the next batch and who gets it, for the calling thread; without any, nobody delivers any more.
    mutating func nextLetter() -> (Run, Letter)? {
        guard let run, hasMail else {
            deliverer = nil
            return nil
        }
        deliverer = pthread_self()
        guard letters.isEmpty else { return (run, letters.removeFirst()) }
        wantsTick = false
        return (run, Letter())
    }

    /// Begins a run, whose first batch is an empty one.
    mutating func begin(_ deliver: @escaping Deliver) -> UInt64? {
        guard run == nil else { return nil }
        let id = makeID()
        run = Run(id: id, deliver: deliver, ending: nextEnding)
        nextEnding = nil
        letters = []
        postTick()
        return id
    }

    /// Forgets a run and what it did not get.
    mutating func end(_ id: UInt64) {
        guard run?.id == id else { return }
        run = nil
        letters = []
        wantsTick = false
    }

    /// One batch of the run was delivered.
    mutating func noteDelivery(_ id: UInt64) {
        if run?.id == id { run?.hasStarted = true }
    }

    /// Takes those who waited for a first batch that was delivered meanwhile.
    mutating func takeStarters() -> [Parked] {
        guard run?.hasStarted == true else { return [] }
        defer { starters = [:] }
        return Array(starters.values)
    }

    /// Decides how a run ends.
    ///
    /// Returns the call if it waits for that.
    mutating func decide(_ id: UInt64?, _ ending: Result<Void, any Error>) -> Parked? {
        guard run != nil, id == nil || run?.id == id, run?.ending == nil else { return nil }
        run?.ending = ending
        defer { run?.parked = nil }
        return run?.parked
    }

    /// The errno that the next request fails with, if it is to fail.
    mutating func takeFailure() -> Int32? {
        guard failures.count > 0 else { return nil }
        failures.count -= 1
        return failures.errno
    }

    /// Returns whether the next dump is interrupted.
    mutating func takeInterruption() -> Bool {
        guard interruptions > 0 else { return false }
        interruptions -= 1
        return true
    }
}
