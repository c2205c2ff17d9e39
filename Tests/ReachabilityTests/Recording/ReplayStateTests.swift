import Reachability
import Testing

@Suite struct ReplayStateTests {
    private let query = RouteQuery(to: ip("1.1.1.1"))
    private var state = ReplayState()

    private func route(_ errno: Int32, isForBatch: Bool = true) -> RecordingEntry {
        RecordingEntry(
            .route(query, .init(.success(.refused(errno: errno)), isForBatch: isForBatch)), now: .zero, wallTime: .zero)
    }

    private func dump(_ interfaces: [NetworkInterface], isForBatch: Bool = true) -> RecordingEntry {
        RecordingEntry(.interfaces(.init(.success(interfaces), isForBatch: isForBatch)), now: .zero, wallTime: .zero)
    }

    private mutating func begin(_ events: [NetworkEvent] = [], _ answers: [RecordingEntry] = [], isWhole: Bool = true) {
        var window = ReplayState.Window(NetworkEventBatch(events, now: .zero, wallTime: .zero))
        window.answers = answers
        window.isWhole = isWhole
        state.begin(window)
    }

    private mutating func answer(forBatch: Bool = true) -> Int32? {
        if case .success(.refused(let errno)) = state.route(to: query, forBatch: forBatch) { errno } else { nil }
    }

    private mutating func names(forBatch: Bool = true) -> [String]? {
        try? state.interfaces(forBatch: forBatch).get().map(\.name)
    }

    @Test mutating func repeatedQueryIsAnsweredInOrder() {
        begin([], [route(1), route(2)])
        #expect([answer(), answer(), answer()] == [1, 2, 2])
    }

    @Test mutating func answersToOthersAreNotTheMonitors() {
        begin([], [route(7, isForBatch: false), route(1)])
        #expect(answer(forBatch: false) == 7 && answer() == 1 && answer(forBatch: false) == 1)
        begin([], [dump([.loopback], isForBatch: false), dump([.cable])])
        #expect(names(forBatch: false) == ["lo"] && names() == ["cable0"])
    }

    @Test mutating func unusedAnswersAreKnownLater() {
        begin([], [route(1), route(2), dump([.cable])])
        begin()
        #expect(answer() == 2 && names() == ["cable0"])
    }

    @Test mutating func eventsUpdateLastDump() {
        #expect(names() == nil)
        begin([], [dump([.loopback, .cable])])
        #expect(names() == ["lo", "cable0"])
        begin([.linkRemoved(index: 2)])
        #expect(names() == ["lo"])
    }

    @Test mutating func oldAnswersReplaceNoMissingOnes() {
        begin([], [route(1), dump([.cable])])
        begin([], [], isWhole: false)
        #expect(answer() == nil && names() == nil && answer(forBatch: false) == 1)
        begin()
        #expect(answer() == 1)
    }

    @Test mutating func recordedErrorIsReturnedOnce() {
        let error = ReachabilityError(.requestFailed, errno: 105, operation: "RTM_GETROUTE")
        let failure = RecordingEntry(.route(query, .init(.failure(error), isForBatch: true)), now: .zero, wallTime: .zero)
        begin([], [route(3), failure])
        #expect(answer() == 3 && answer() == nil && answer() == 3)
    }
}
