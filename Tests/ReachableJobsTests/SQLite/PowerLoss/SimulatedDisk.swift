#if SQLite
import ReachabilityTesting

/// The content of a directory's files after a power failure.
///
/// The model: a sync makes the content and the size of its file durable, and where SQLite synchronizes the directory, the names of
/// all its files. Anything later may be lost or kept, each write and name by itself; bytes beside a write are never damaged.
struct SimulatedDisk {
    /// The writes and names since the last sync that a power failure takes away.
    enum Loss: CaseIterable, Sendable {
        case everything, nothing
        /// Some writes are kept, also if earlier ones are lost.
        case someWrites
        /// Each sector of 512 bytes is kept or lost; a lost one at the end of a file may hold garbage.
        case someSectors
    }

    private enum Change {
        case write(offset: Int, [UInt8])
        case truncate(Int)
    }

    private struct File {
        var durable: [UInt8] = []
        var pending: [Change] = []
    }

    private static let sector = 512

    private var files: [File] = []
    private var names: [String: Int] = [:]
    private var durableNames: [String: Int] = [:]

    /// Performs the next operation.
    ///
    /// - Parameter ignoresSync: True for a disk that reports a sync without performing it.
    mutating func perform(_ operation: DiskRecording.Operation, ignoresSync: Bool = false) {
        switch operation {
        case .open(let name):
            guard names[name] == nil else { return }
            names[name] = files.count
            files.append(File())
        case .write(let name, let offset, let bytes): change(name, .write(offset: offset, bytes))
        case .truncate(let name, let size): change(name, .truncate(size))
        case .sync(let name, let withDirectory):
            if ignoresSync { return }
            if let file = names[name] {
                for change in files[file].pending { Self.apply(change, to: &files[file].durable) }
                files[file].pending = []
            }
            if withDirectory { durableNames = names }
        case .delete(let name, let syncsDirectory):
            names[name] = nil
            if syncsDirectory, !ignoresSync { durableNames = names }
        }
    }

    private mutating func change(_ name: String, _ change: Change) {
        if let file = names[name] { files[file].pending.append(change) }
    }

    /// Returns the files after a power failure at this moment.
    func image(after loss: Loss, using generator: inout SeededGenerator) -> [String: [UInt8]] {
        var image: [String: [UInt8]] = [:]
        for name in Set(names.keys).union(durableNames.keys).sorted() {
            let isCurrent =
                switch loss {
                case .everything: false
                case .nothing: true
                case .someWrites, .someSectors: Bool.random(using: &generator)
                }
            if let file = isCurrent ? names[name] : durableNames[name] {
                image[name] = content(of: files[file], after: loss, &generator)
            }
        }
        return image
    }

    private func content(of file: File, after loss: Loss, _ generator: inout SeededGenerator) -> [UInt8] {
        var bytes = file.durable
        // Otherwise half of them would be kept in each image.
        let share = Double.random(in: 0...1, using: &generator)
        for change in file.pending {
            switch loss {
            case .everything: break
            case .nothing: Self.apply(change, to: &bytes)
            case .someWrites: if Double.random(in: 0...1, using: &generator) < share { Self.apply(change, to: &bytes) }
            case .someSectors:
                for piece in Self.sectors(of: change) {
                    if Double.random(in: 0...1, using: &generator) < share {
                        Self.apply(piece, to: &bytes)
                    } else if case .write(let offset, let lost) = piece, offset + lost.count > bytes.count,
                        Bool.random(using: &generator)
                    {
                        Self.apply(
                            .write(offset: offset, lost.map { _ in UInt8.random(in: 0...255, using: &generator) }), to: &bytes)
                    }
                }
            }
        }
        return bytes
    }

    private static func sectors(of change: Change) -> [Change] {
        guard case .write(let offset, let bytes) = change else { return [change] }
        var pieces: [Change] = []
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + sector - (offset + start) % sector)
            pieces.append(.write(offset: offset + start, Array(bytes[start..<end])))
            start = end
        }
        return pieces
    }

    private static func apply(_ change: Change, to bytes: inout [UInt8]) {
        switch change {
        case .truncate(let size):
            if size < bytes.count { bytes.removeLast(bytes.count - size) } else { extend(&bytes, to: size) }
        case .write(let offset, let new):
            extend(&bytes, to: offset + new.count)
            bytes.withUnsafeMutableBytes { target in
                UnsafeMutableRawBufferPointer(rebasing: target[offset..<offset + new.count]).copyBytes(from: new)
            }
        }
    }

    private static func extend(_ bytes: inout [UInt8], to size: Int) {
        if size > bytes.count { bytes += [UInt8](repeating: 0, count: size - bytes.count) }
    }
}
#endif
