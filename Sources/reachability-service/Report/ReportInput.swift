import Glibc
import Reachability

/// The observations of files of `watch`, in the order of their times.
///
/// FILE.2, FILE.1 and FILE are one stream, in this order. Streams are merged by their wall times. Of each stream one file is open,
/// and one chunk of it in memory.
struct ReportInput {
    private var streams: [Stream]
    /// The number of lines left out: damaged ones, and those of other kinds.
    private(set) var skippedLines = 0

    /// Groups the files; opens none.
    ///
    /// - Parameters:
    ///   - files: The paths, `-` for standard input.
    ///   - open: Opens a file for reading.
    init(
        _ files: [String],
        open: @escaping (String) throws(ReachabilityError) -> RecordingFile = { path throws(ReachabilityError) in
            path == "-" ? RecordingFile(descriptor: STDIN_FILENO, name: "standard input") : try RecordingFile(reading: path)
        }
    ) {
        var names: [String] = []
        var groups: [String: [(number: Int, path: String)]] = [:]
        for file in files {
            let (name, number) = Self.parts(of: file)
            if groups[name] == nil { names.append(name) }
            groups[name, default: []].append((number, file))
        }
        streams = names.map { name in
            Stream(files: (groups[name] ?? []).sorted { $0.number > $1.number }.map(\.path), open: open)
        }
    }

    /// Returns the next observation and the number of its stream; `nil` at the end.
    mutating func next() throws(ReachabilityError) -> (observation: Observation, stream: Int)? {
        var earliest: (time: Duration, stream: Int)?
        for index in streams.indices {
            guard let time = try streams[index].head?.time else { continue }
            if earliest.map({ time < $0.time }) ?? true { earliest = (time, index) }
        }
        guard let stream = earliest?.stream, let observation = try streams[stream].next() else {
            skippedLines = streams.map(\.skippedLines).reduce(0, +)
            return nil
        }
        return (observation, stream)
    }

    /// Returns the name of a log and the number of an older file of it, or 0.
    static func parts(of path: String) -> (name: String, number: Int) {
        guard let dot = path.lastIndex(of: "."), dot > path.startIndex, path[path.index(before: dot)] != "/",
            path[path.index(after: dot)...].utf8.allSatisfy({ (48...57).contains($0) }),
            let number = Int(path[path.index(after: dot)...])
        else { return (path, 0) }
        return (String(path[..<dot]), number)
    }
}

/// The observations of a log, from its oldest file on.
private struct Stream {
    private var files: ArraySlice<String>
    private let open: (String) throws(ReachabilityError) -> RecordingFile
    private var lines: LineReader?
    private var loaded: Observation?
    private(set) var skippedLines = 0

    init(files: [String], open: @escaping (String) throws(ReachabilityError) -> RecordingFile) {
        (self.files, self.open) = (files[...], open)
    }

    /// The next observation; `nil` at the end.
    var head: Observation? {
        mutating get throws(ReachabilityError) {
            if loaded == nil { loaded = try read() }
            return loaded
        }
    }

    mutating func next() throws(ReachabilityError) -> Observation? {
        defer { loaded = nil }
        return try head
    }

    private mutating func read() throws(ReachabilityError) -> Observation? {
        while true {
            while let line = try lines?.next() {
                if let observation = Observation(jsonLine: line) { return observation }
                // Blank lines are harmless.
                if line.contains(where: { $0 > 0x20 }) { skippedLines += 1 }
            }
            guard let path = files.popFirst() else { return nil }
            let file = try open(path)
            lines = LineReader { () throws(ReachabilityError) in try file.read() }
        }
    }
}

/// Lines from chunks of bytes.
struct LineReader {
    /// The length of the longest line that is kept; longer ones are cut.
    static let longestLine = 64 << 10

    private let read: () throws(ReachabilityError) -> [UInt8]
    private var chunk: [UInt8] = []
    private var position = 0
    private var isAtEnd = false

    /// - Parameter read: Returns the next bytes; an empty array at the end.
    init(_ read: @escaping () throws(ReachabilityError) -> [UInt8]) { self.read = read }

    /// Returns the next line without its end; `nil` at the end.
    mutating func next() throws(ReachabilityError) -> [UInt8]? {
        var line: [UInt8] = []
        var hasLine = false
        while true {
            if position == chunk.count {
                guard !isAtEnd else { return hasLine ? line : nil }
                chunk = try read()
                position = 0
                isAtEnd = chunk.isEmpty
                continue
            }
            hasLine = true
            let end = Self.newline(in: chunk, from: position)
            line += chunk[position..<min(end ?? chunk.count, position + Self.longestLine - min(line.count, Self.longestLine))]
            position = end.map { $0 + 1 } ?? chunk.count
            if end != nil { return line }
        }
    }

    private static func newline(in bytes: [UInt8], from position: Int) -> Int? {
        bytes.withUnsafeBytes { buffer in
            buffer.baseAddress.flatMap { base in
                memchr(base + position, 0x0a, buffer.count - position).map { UnsafeRawPointer($0) - base }
            }
        }
    }
}
