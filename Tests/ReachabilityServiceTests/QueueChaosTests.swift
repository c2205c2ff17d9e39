#if SQLite
import Foundation
import ReachabilityTesting
import TestSupport
import Testing

/// Workers that are killed at random on a network whose cable is pulled.
@Suite(.timeLimit(.minutes(20)), .blocking) struct QueueChaosTests {
    /// The number of commands; `QUEUE_COMMANDS=150` for the whole.
    private static let count = variable("QUEUE_COMMANDS") ?? 40

    /// The lines that commands write to a FIFO.
    private struct Reports {
        private let file: FileHandle
        private var rest = ""
        private(set) var lines: [Substring] = []

        init(_ path: String) throws {
            try #require(mkfifo(path, 0o600) == 0)
            // With a writer of its own it has no end.
            let descriptor = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
            try #require(descriptor >= 0)
            file = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        }

        /// Reads lines until there are as many, or none has come for a while.
        mutating func read(upTo count: Int, patience: Int32) {
            var request = pollfd(fd: file.fileDescriptor, events: Int16(POLLIN), revents: 0)
            while lines.count < count, poll(&request, 1, patience) > 0 {
                rest += String(decoding: file.availableData, as: UTF8.self)
                var parts = rest.split(separator: "\n", omittingEmptySubsequences: false)
                rest = String(parts.removeLast())
                lines += parts.map { Substring(String($0)) }
            }
        }
    }

    @Test(arguments: 1...2) func eachCommandHasItsEffectAndSerialOnesKeepTheirOrder(seed: UInt64) throws {
        let machine = try CabledMachine()
        let desk = try QueueDesk(in: machine.name)
        var random = SeededGenerator(seed: seed)
        var reports = try Reports("\(desk.directory)/reports")
        for number in 1...Self.count {
            // The lock shows two attempts at the same time.
            let script = """
                exec 9>lock.\(number); flock -n 9 || echo \(number) overlaps >reports
                echo \(number) start >reports; sleep 0.0\(number % 10); echo \(number) end >reports
                """
            let network = number % 3 == 0 ? ["--connectivity", "ignore"] : ["--to", "192.0.2.1"]
            let serial = number % 2 == 0 ? ["--serial", "key \(number % 4)"] : []
            try #require(desk.run(["add"] + network + serial + ["--", "sh", "-c", script]).code == 0)
        }

        var workers = try [desk.start(["run"]), desk.start(["run"])]
        for _ in 1...Self.count / 3 {
            reports.read(upTo: reports.lines.count + .random(in: 0...6, using: &random), patience: 300)
            switch Int.random(in: 0...3, using: &random) {
            case 0: try machine.ip("link set far0 down")
            case 1: try machine.ip("link set far0 up")
            default:
                let index = Int.random(in: 0...1, using: &random)
                workers[index].kill()
                workers[index] = try desk.start(["run"])
            }
        }
        try machine.ip("link set far0 up")
        reports.read(upTo: .max, patience: 3000)
        for worker in workers {
            worker.terminate()
            worker.waitUntilExit()
        }
        #expect(try desk.run("run", "--drain").code == 0)
        reports.read(upTo: .max, patience: 0)

        let states = try desk.list()
        #expect(states.count == Self.count && states.allSatisfy { $0["state"] as? String == "succeeded" }, "seed \(seed)")
        let events = reports.lines.compactMap { line in
            let words = line.split(separator: " ")
            return words.count == 2 ? Int(words[0]).map { (number: $0, what: words[1]) } : nil
        }
        #expect(events.count == reports.lines.count && !events.contains { $0.what == "overlaps" }, "seed \(seed)")
        #expect(Set(events.filter { $0.what == "end" }.map(\.number)) == Set(1...Self.count), "seed \(seed)")
        for key in [0, 2] {
            let numbers = events.map(\.number).filter { $0 % 4 == key }
            #expect(numbers == numbers.sorted(), "seed \(seed): \(numbers)")
        }
    }
}
#endif
