import Reachability
import Testing

@Suite struct BroadcastTests {
    private var broadcast = Broadcast<String, Int>()

    @Test mutating func newcomerGetsItsBaselineFirst() {
        _ = broadcast.add(1, to: "a")
        #expect(broadcast.listeners(to: "a").isEmpty && broadcast.hasNewcomers)
        let none: [(Int, [Int])] = broadcast.admit { _ in nil }
        #expect(none.isEmpty && broadcast.hasNewcomers)
        let admitted = broadcast.admit { $0 == "a" ? 7 : nil }
        #expect(admitted.map(\.0) == [7] && admitted.map(\.1) == [[1]])
        #expect(broadcast.listeners(to: "a") == [1] && !broadcast.hasNewcomers)
    }

    @Test mutating func baselineIsDeliveredOnce() {
        _ = broadcast.add(1, to: "a")
        _ = broadcast.admit { _ in 0 }
        _ = broadcast.add(2, to: "a")
        #expect(broadcast.admit { _ in 0 }.map(\.1) == [[2]])
        #expect(broadcast.listeners(to: "a").sorted() == [1, 2])
    }

    @Test mutating func removedListenersAreForgotten() {
        let early = broadcast.add(1, to: "a")
        _ = broadcast.admit { _ in 0 }
        let late = broadcast.add(2, to: "a")
        #expect(broadcast.count == 2)
        #expect(broadcast.remove(early, from: "a") && broadcast.remove(late, from: "a"))
        #expect(!broadcast.remove(early, from: "a") && !broadcast.remove(99, from: "b"))
        #expect(broadcast.count == 0 && !broadcast.hasNewcomers)
    }

    @Test mutating func removeAllReturnsAllListeners() {
        _ = broadcast.add(1, to: "a")
        _ = broadcast.admit { _ in 0 }
        _ = broadcast.add(2, to: "b")
        #expect(broadcast.removeAll().sorted() == [1, 2] && broadcast.count == 0)
    }
}
