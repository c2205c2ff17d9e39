import Glibc
import Reachability
import ReachabilityTesting
import Testing

/// Steps of the time of day while the reader waits.
@Suite(.tags(.kernel), .enabled(if: ClockStep.isPermitted, "setting the clock is not permitted"), .timeLimit(.minutes(10)))
struct ClockTests {
    @Test func clockChangeWakesReader() async throws {
        let kernel = KernelNetwork()
        let (batches, running) = kernel.deliveries()
        var iterator = batches.makeAsyncIterator()
        _ = await iterator.next(isolation: #isolation)
        for nanoseconds in [1, -1] {
            #expect(ClockStep.make(nanoseconds) >= 0)
            // Empty except for unrelated events of this machine.
            let batch = try #require(await iterator.next(isolation: #isolation))
            #expect(!batch.events.contains { $0 == .overrun })
        }
        running.cancel()
        _ = await running.result
    }
}

/// Real steps of the time of day, by one nanosecond.
private enum ClockStep {
    static let isPermitted = make(1) >= 0 && make(-1) >= 0

    /// Returns a negative number if it is not permitted (adjtimex(2)).
    static func make(_ nanoseconds: Int) -> Int32 {
        // Not among the functions that the Glibc module declares.
        typealias Function = @convention(c) (UnsafeMutableRawPointer) -> Int32
        guard let symbol = dlsym(nil, "adjtimex") else { return -1 }
        let function = unsafeBitCast(symbol, to: Function.self)
        // struct timex of 64-bit machines: modes first, time.tv_sec and time.tv_usec at 72 and 80.
        let change = UnsafeMutableRawPointer.allocate(byteCount: 256, alignment: 8)
        defer { change.deallocate() }
        change.initializeMemory(as: UInt8.self, repeating: 0, count: 256)
        // ADJ_SETOFFSET | ADJ_NANO: a negative time is written with a positive fraction.
        change.storeBytes(of: 0x0100 | 0x2000, as: UInt32.self)
        change.storeBytes(of: nanoseconds < 0 ? -1 : 0, toByteOffset: 72, as: Int.self)
        change.storeBytes(of: nanoseconds < 0 ? 1_000_000_000 + nanoseconds : nanoseconds, toByteOffset: 80, as: Int.self)
        return function(change)
    }
}
