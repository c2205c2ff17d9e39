import Reachability

/// A format of compressed files, for a user who forgot to decompress a recording.
enum CompressedFormat: String, CaseIterable {
    case gzip
    case xz
    case zstd
    case bzip2

    /// Recognizes a file by its first bytes.
    init?(beginning: [UInt8]) {
        guard let format = Self.allCases.first(where: { beginning.starts(with: $0.signature) }) else { return nil }
        self = format
    }

    /// The words behind the file's name.
    var advice: String {
        let program =
            switch self {
            case .gzip: "gunzip"
            case .xz: "unxz"
            case .zstd: "unzstd"
            case .bzip2: "bunzip2"
            }
        return "is compressed with \(rawValue); next: decompress it, as in: \(program) < FILE | reachability-watch replay -"
    }

    /// RFC 1952 §2.3.1; the .xz file format §2.1.1.1; RFC 8878 §3.1.1; "BZh" of bzip2.
    private var signature: [UInt8] {
        switch self {
        case .gzip: [0x1f, 0x8b]
        case .xz: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00]
        case .zstd: [0x28, 0xb5, 0x2f, 0xfd]
        case .bzip2: [0x42, 0x5a, 0x68]
        }
    }

    /// Reads until there is enough to recognize a format, or until the end.
    static func beginning(of read: () throws(ReachabilityError) -> [UInt8]) throws(ReachabilityError) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < 6, case let more = try read(), !more.isEmpty { bytes += more }
        return bytes
    }
}
