import Foundation
import Synchronization
import Testing

@testable import ReachableHTTP

@Suite struct DescriptorShareTests {
    @Test(arguments: [(64, 16), (1024, 256), (7, 1), (0, 1)]) func aQuarterAsManyAttemptsRunAsDescriptors(
        limit: UInt64, most: Int
    ) throws {
        let share = DescriptorShare { limit }
        for _ in 0..<most { try share.take() }
        #expect(throws: POSIXError(.EMFILE)) { try share.take() }
        share.giveBack()
        try share.take()
        #expect(throws: POSIXError(.EMFILE)) { try share.take() }
    }

    @Test func aLimitThatChangesHoldsAtOnce() throws {
        let limit = Mutex<UInt64>(4)
        let share = DescriptorShare { limit.withLock { $0 } }
        try share.take()
        #expect(throws: POSIXError(.EMFILE)) { try share.take() }
        limit.withLock { $0 = .max }
        for _ in 0..<100 { try share.take() }
        limit.withLock { $0 = 8 }
        #expect(throws: POSIXError(.EMFILE)) { try share.take() }
        for _ in 0..<100 { share.giveBack() }
        try share.take()
        #expect(throws: POSIXError(.EMFILE)) { try share.take() }
    }
}
