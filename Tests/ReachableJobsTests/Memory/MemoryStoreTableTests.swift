import FoundationEssentials
import Testing

@testable import ReachableJobs

/// The tables of the state stay small, whatever is added and removed.
struct MemoryStoreTableTests {
    private func row(_ position: Int64, serialKey: String? = nil) -> StoredJob {
        var job = NewJob(queue: "q", kind: "k", payload: Data())
        job.serialKey = serialKey
        return StoredJob(job, position: position, lane: 0, now: StoreInstant(nanoseconds: 0), created: Date())
    }

    /// A million jobs without a past take 200 MB beside their payloads and keys.
    @Test func rowsAreSmall() {
        #expect(MemoryLayout<StoredJob>.stride <= 208)
        #expect(MemoryLayout<LazyHeap.Entry>.stride <= 24)
    }

    @Test func positionsFindJobsAfterRemovals() {
        var table = StoredJobTable()
        for position in 1...1000 { table.append(row(Int64(position))) }
        for position in 1...1000 where position % 7 != 0 { table.remove(Int64(position)) }
        table.append(row(1001))
        #expect(table.count == 143)
        for position in 0...1002 {
            let isThere = position == 1001 || position > 0 && position <= 1000 && position % 7 == 0
            #expect(table.job(at: Int64(position))?.position == (isThere ? Int64(position) : nil))
        }
        var found: [Int64] = []
        table.forEach(after: 900) {
            found.append($0.position)
            return found.count < 4
        }
        #expect(found == [903, 910, 917, 924])
        table[903].isStarted = true
        #expect(table.job(at: 903)?.isStarted == true)
    }

    @Test func positionsGrowAfterAllJobsAreGone() {
        var table = StoredJobTable()
        for position in 1...100 { table.append(row(Int64(position))) }
        for position in 1...100 { table.remove(Int64(position)) }
        #expect(table.count == 0 && table.lastPosition == 100)
        table.append(row(101))
        #expect(table.job(at: 101) != nil)
    }

    @Test func heapForgetsStaleEntries() {
        var table = StoredJobTable()
        var heap = LazyHeap()
        for position in 1...3 { table.append(row(Int64(position))) }
        for stamp in 1...1000 {
            table[1].stamp = UInt32(stamp)
            heap.insert(Int64(1000 - stamp), 1, stamp: UInt32(stamp), table)
        }
        #expect(heap.count <= 65)
        heap.insert(5, 3, stamp: 0, table)
        heap.insert(5, 2, stamp: 0, table)
        #expect(heap.popFirst(through: 4, table)?.position == 1)
        #expect(heap.popFirst(through: 4, table) == nil)
        #expect(heap.popFirst(through: 5, table)?.position == 2)
        table.remove(3)
        #expect(heap.first(table) == nil)
    }

    @Test func chainForgetsEndedMembers() {
        var table = StoredJobTable()
        var chain = KeyChain()
        let key = ChainKey(queue: 0, kind: nil, key: "s")
        for position in 1...1000 {
            table.append(row(Int64(position), serialKey: "s"))
            chain.update(Int64(position), key, table)
            // All but the first one end in the middle.
            guard position > 2 else { continue }
            table[Int64(position - 1)].state = .cancelled
            chain.update(Int64(position - 1), key, table)
        }
        #expect(chain.first == 1 && chain.last == 1000)
        #expect(chain.count <= 33)
        #expect(chain.hasFollowers(of: 1, table) && !chain.hasFollowers(of: 1000, table))
        // A retried member returns to its place, once.
        table[500].state = .available
        chain.update(500, key, table)
        chain.update(500, key, table)
        table[1].state = .succeeded
        chain.update(1, key, table)
        #expect(chain.first == 500 && chain.admits(500))
        table[500].state = .succeeded
        chain.update(500, key, table)
        #expect(chain.first == 1000)
    }

    @Test func clockOfLaneCountsOpenTime() {
        func at(_ seconds: Int64) -> StoreInstant { StoreInstant(nanoseconds: seconds) }
        var clock = LaneClock()
        #expect(clock.reading(at(5)) == 0)
        clock.open(at(10))
        clock.open(at(20))
        #expect(clock.reading(at(30)) == 20)
        clock.close(at(40))
        #expect(clock.reading(at(50)) == 40)
        clock.hold(until: at(70), at(50))
        #expect(clock.reading(at(60)) == 40)
        #expect(clock.reading(at(75)) == 45)
        clock.hold(until: at(60), at(75))
        #expect(clock.reading(at(80)) == 50)
        // The end of the last worker is noticed late.
        clock.close(at(78))
        #expect(clock.reading(at(100)) == 48)
    }
}
