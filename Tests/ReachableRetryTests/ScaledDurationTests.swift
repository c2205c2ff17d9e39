import ReachabilityTesting
import Testing

@testable import ReachableRetry

/// Products of durations, the basis of all delays.
struct ScaledDurationTests {
    private let longest = Duration(attoseconds: .max)

    @Test func productsSaturateAndStayAboveZero() {
        #expect(longest.scaled(by: 1) == longest && longest.scaled(by: 1.5) == longest)
        #expect(Duration.seconds(1).scaled(by: Double.infinity) == longest && Duration.seconds(1).scaled(by: 1e300) == longest)
        #expect(longest.scaled(by: 0.5) < longest && longest.scaled(by: 1 - 0x1p-53) < longest)
        for factor in [0, -1, -Double.infinity, .nan] { #expect(longest.scaled(by: factor) == .zero) }
        for factor in [0, 1, 2, Double.infinity, .nan] {
            #expect(Duration.zero.scaled(by: factor) == .zero && Duration.seconds(-1).scaled(by: factor) == .zero)
        }
    }

    @Test(arguments: [1, 20_260_131] as [UInt64]) func productsAreRightToANanosecond(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<10_000 {
            // Factors that a Double holds exactly, so that the exact product is known, and products of up to 52 days.
            let parts = Int128(generator.next() % (1 << 20))
            let limit = (Int128(1) << 52) * 1_000_000_000
            let attoseconds = Int128(generator.next()) * Int128(generator.next() >> 32) % limit
            let exact = Duration(attoseconds: (attoseconds * parts) >> 20)
            let product = Duration(attoseconds: attoseconds).scaled(by: Double(parts) * 0x1p-20)
            let error = max(exact, product) - min(exact, product)
            #expect(error < .nanoseconds(1), "seed \(seed): \(attoseconds) as times \(parts)/2^20")
        }
    }

    /// Otherwise a jittered delay could exceed the cap by a bit.
    @Test(arguments: [1, 20_260_131] as [UInt64]) func aFractionOfADurationIsNeverLonger(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<10_000 {
            let attoseconds = (Int128(generator.next()) << 62) >> Int128(generator.next() % 126)
            for near in -1...1 as ClosedRange<Int128> where attoseconds + near > 0 {
                let duration = Duration(attoseconds: attoseconds + near)
                #expect(duration.scaled(by: 1 - 0x1p-53) <= duration, "seed \(seed), \(attoseconds + near) as")
            }
        }
    }
}
