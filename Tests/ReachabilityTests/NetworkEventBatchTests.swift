import Reachability
import Testing

@Suite struct NetworkEventBatchTests {
    private func batch(of count: Int) -> NetworkEventBatch {
        NetworkEventBatch(
            [NetworkEvent](repeating: .overrun, count: count), now: .seconds(1), wallTime: .seconds(2), hasMore: true, spoofed: 1,
            malformed: 2, drops: 3, reopens: 4, receiveBuffer: 5)
    }

    @Test func emptiedBatchHasNoEvents() {
        var batch = batch(of: 3)
        batch.removeAll()
        #expect(batch.events.isEmpty && !batch.hasMore && batch.receiveBuffer == nil)
        #expect(batch.spoofed + batch.malformed + batch.drops + batch.reopens == 0)
    }

    /// After a loss one batch holds all events of the kernel: its buffer must not be kept.
    @Test(arguments: [100, 200_000]) func emptiedBatchKeepsItsUsualCapacity(count: Int) {
        var batch = batch(of: count)
        batch.removeAll()
        #expect(count <= 512 ? batch.events.capacity >= count : batch.events.capacity == 0)
    }
}
