import ArgumentParser
import CommandKit
import Glibc
import Reachability
import ReachableJobs

/// The subcommand `queue log`.
struct QueueLogCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log",
        abstract: "Writes what a stored command has written: the last mebibyte of its last attempt.",
        discussion: """
            Standard output and error of an attempt are kept together, as the command wrote them. Those of the last 5 attempts are \
            kept until the job is pruned.

            EXAMPLES
              reachability-watch queue log 0198f3
              reachability-watch queue log --follow 0198f3
            """)

    @OptionGroup var store: StoreOption

    @Option(help: ArgumentHelp("The number of the attempt. Default: the last one.", valueName: "n"))
    var attempt: Int?

    @Flag(name: .shortAndLong, help: "Go on with what the command writes, over all attempts, until the job has ended.")
    var follow = false

    @Argument(help: "The id, or its beginning.")
    var id: String

    func run() {
        QueueProgram.run { [self] in
            let jobs = try JobFinder(store)
            let job = try await jobs.job(id)
            var reader = OutputReader(jobs.store.output, job.id, attempt: attempt)
            do {
                guard try reader.write() || follow else {
                    let what = attempt.map { "attempt \($0)" } ?? "any attempt"
                    throw CommandFailure(.noInput, "there is no output of \(what); next: reachability-watch queue show \(job.id)")
                }
                guard follow else { return .yes }
                for await _ in OutputChanges.stream(jobs.store) {
                    // First the state: what was written before the end is read after it.
                    let state = try await jobs.queue.jobs(matching: JobFilter(idPrefix: "\(job.id)")).first?.state
                    _ = try reader.write()
                    if state?.isFinal ?? true { break }
                }
                return .yes
            } catch let failure as OutputFailure {
                return Program.report(failure)
            }
        }
    }
}

/// Writes the output of a job's attempts to standard output, from where it stopped before.
struct OutputReader {
    private let directory: OutputDirectory
    private let job: DurableJobID
    private let attempt: Int?
    private var current: (entry: OutputDirectory.Entry, offset: off_t)?

    init(_ directory: OutputDirectory, _ job: DurableJobID, attempt: Int?) {
        (self.directory, self.job, self.attempt) = (directory, job, attempt)
    }

    /// Writes what is new; returns false if there is no output at all.
    mutating func write() throws(OutputFailure) -> Bool {
        let entries = directory.entries(of: job)
        if let current {
            try writeRest(of: current.entry)
            guard attempt == nil else { return true }
            for entry in entries where entry > current.entry { try begin(entry) }
            return true
        }
        guard let entry = entries.last(where: { attempt == nil || $0.attempt == attempt }) else { return false }
        try begin(entry)
        return true
    }

    private mutating func begin(_ entry: OutputDirectory.Entry) throws(OutputFailure) {
        current = (entry, 0)
        try writeRest(of: entry)
    }

    private mutating func writeRest(of entry: OutputDirectory.Entry) throws(OutputFailure) {
        guard let descriptor = directory.open(entry) else { return }
        defer { close(descriptor) }
        var info = stat()
        guard fstat(descriptor, &info) == 0 else { return }
        // What is further away may be a hole.
        var offset = max(current?.offset ?? 0, info.st_size - off_t(OutputDirectory.keptBytes))
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = pread(descriptor, &buffer, buffer.count, offset), count > 0 {
            try DescriptorOutput.standard.write(bytes: buffer[..<count])
            offset += off_t(count)
        }
        current?.offset = offset
    }
}

/// The moments at which output or a job may have changed.
enum OutputChanges {
    /// Returns a stream that begins with one element.
    ///
    /// Its thread lasts as long as the process, which ends with the stream.
    static func stream(_ store: QueueStore) -> AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        continuation.yield()
        let changes = Task {
            for await _ in store.jobs.changes() { continuation.yield() }
        }
        mkdir(store.output.path, 0o700)
        let events = inotify_init1(Int32(O_CLOEXEC))
        guard events >= 0 else { return stream }
        inotify_add_watch(events, store.output.path, UInt32(IN_MODIFY | IN_CREATE))
        SystemThread.start {
            var buffer = [UInt8](repeating: 0, count: 4096)
            while read(events, &buffer, buffer.count) > 0 { continuation.yield() }
        }
        continuation.onTermination = { _ in changes.cancel() }
        return stream
    }
}
