import CBench
import Glibc

/// A process that listens, or another one that is needed; it ends with the object.
final class Peer {
    let process: pid_t
    /// The reading end of its standard output, or -1.
    let output: Int32
    private let stamps: OpaquePointer?
    private var hasEnded = false

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - arguments: its path, or its name if it is on the PATH, and its arguments.
    ///   - processor: where to keep it; `nil` leaves that to the scheduler.
    ///   - hasStamps: whether it notes what it hears in shared memory.
    ///   - hasOutput: whether its standard output is wanted.
    ///   - hasOwnNetwork: whether it gets a network namespace of its own.
    init(
        _ arguments: [String], processor: Int32? = nil, hasStamps: Bool = false, hasOutput: Bool = false,
        hasOwnNetwork: Bool = false
    ) throws {
        let words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        let memory = hasStamps ? try BenchError.check(bench_stamps_create(), "memfd_create") : -1
        // The process has inherited it, and the mapping needs no descriptor.
        defer { if memory >= 0 { close(memory) } }
        stamps = hasStamps ? bench_stamps_map(memory) : nil
        var output: Int32 = -1
        process = try words.withUnsafeBufferPointer { words in
            guard let base = words.baseAddress else { throw BenchError("no program") }
            var command = bench_command(
                arguments: UnsafeMutablePointer(mutating: base), processor: processor ?? -1, stamps: memory,
                has_output: hasOutput, has_own_network: hasOwnNetwork)
            return try BenchError.check(bench_start(&command, &output), arguments[0])
        }
        self.output = output
    }

    deinit {
        if !hasEnded { bench_stop(process) }
        if output >= 0 { close(output) }
        bench_stamps_unmap(stamps)
    }

    /// Waits for its end and returns its exit code.
    func wait() -> Int32 {
        hasEnded = true
        return bench_wait(process)
    }

    /// Its view of the network.
    var view: bench_view { stamps.map(bench_get_view) ?? BENCH_VIEW_UNKNOWN }

    /// The processor time that it has used, in seconds.
    var processorTime: Double { Double(bench_processor_time(process)) / 1e9 }

    /// The memory that it holds, in megabytes: now, and at most so far.
    var memory: (now: Double, peak: Double) {
        memoryHeld(by: "\(process)")
    }

    /// Toggles a default route and measures how long it takes until the peer has heard of each addition.
    ///
    /// Returns nanoseconds, 0 for what it missed.
    func latencies(_ network: Network, count: Int, seed: UInt64) throws -> [Int64] {
        var latencies = [Int64](repeating: 0, count: count)
        var toggling = bench_toggling(
            route: network.defaultRoute, count: UInt32(count), seed: seed, output: output, stamps: stamps)
        try BenchError.check(bench_toggle(network.socket, &toggling, &latencies), "toggling a route")
        return latencies
    }

    /// The time of its first stamp since a time; 0 if there is none.
    func firstStamp(since time: Int64) -> Int64 { stamps.map { bench_stamps_first($0, 0, time) } ?? 0 }

    /// Reads everything that it has written so far.
    func readOutput() -> String {
        _ = fcntl(output, F_SETFL, O_NONBLOCK)
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(output, &buffer, buffer.count), count > 0 { bytes += buffer[..<count] }
        return String(decoding: bytes, as: UTF8.self)
    }
}
