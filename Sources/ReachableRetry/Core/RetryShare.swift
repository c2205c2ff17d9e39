/// Finagle's retry budget: so many retries per hundred jobs of late, and a few in any case.
///
/// What jobs give and retries take is forgotten after the window, a tenth of it at a time; so the few renew themselves.
package struct RetryShare: BudgetState, Hashable {
    /// The parts of a retry.
    static let retry: Int32 = 1_000_000
    private static let slices: Int64 = 10

    /// What a job gives.
    private let deposit: Int64
    /// What is there without jobs.
    private let reserve: Int64
    /// In nanoseconds.
    private let slice: Int64
    /// What was given, less what was taken, in each slice of the window.
    private var sums = [Int64](repeating: 0, count: Int(slices))
    /// The number of the latest slice since the clock began.
    private var latest: Int64 = 0

    package init(percentage: Double, minimumPerSecond: Int, window: Duration) {
        deposit = percentage.parts(Self.retry / 100)
        let window = BusTime(max(.seconds(1), window)).nanoseconds
        reserve = Int64(clamping: Int128(minimumPerSecond.count) * Int128(window) * Int128(Self.retry) / 1_000_000_000)
        slice = window / Self.slices
    }

    /// In parts of a retry.
    package var balance: Int64 { Int64(clamping: sums.reduce(Int128(reserve)) { $0 + Int128($1) }) }

    package mutating func noteFailure(isFirst: Bool, at now: BusTime) { if isFirst { add(deposit, at: now) } }

    package mutating func takeRetry(afterTimeout: Bool, at now: BusTime) -> Int32? {
        forget(at: now)
        guard balance >= Int64(Self.retry) else { return nil }
        add(-Int64(Self.retry), at: now)
        // A retry that succeeds was one all the same.
        return 0
    }

    package mutating func noteSuccess(refund: Int32?, at now: BusTime) { if refund == nil { add(deposit, at: now) } }

    private mutating func add(_ amount: Int64, at now: BusTime) {
        forget(at: now)
        let place = Int(latest % Self.slices)
        let (sum, overflow) = sums[place].addingReportingOverflow(amount)
        sums[place] = overflow ? (amount > 0 ? .max : .min) : sum
    }

    /// Empties the slices that have left the window; who comes late is counted in the latest one.
    private mutating func forget(at now: BusTime) {
        let number = now.nanoseconds / slice
        guard number > latest else { return }
        for gone in max(latest, number - Self.slices) + 1...number { sums[Int(gone % Self.slices)] = 0 }
        latest = number
    }
}
